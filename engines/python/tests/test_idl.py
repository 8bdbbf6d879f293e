import pickle

import pytest

import isorb


def test_classes_have_members_docs_and_equality(radar):
    point = radar.Point(1.0, y=2.0)
    assert point == radar.Point(1.0, 2.0) and point != radar.Point(1.0, 3.0)
    assert repr(point) == "Point(x=1.0, y=2.0)"
    assert radar.Sensor.add.__doc__ == "Adds two numbers."
    assert radar.Named.name.__doc__ == "What it is called."
    assert issubclass(radar.Sensor, radar.Named) and issubclass(radar.Sensor, isorb.Object)
    assert radar.Mode.track is radar.track and radar.track == 2
    assert (radar.MOST, radar.UNIT) == (16, "m")
    assert radar.Point.__isorb__.repository_id == "IDL:Radar/Point:1.0"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(point)


def test_a_missing_or_unknown_member_is_named(radar):
    with pytest.raises(TypeError, match="'y'"):
        radar.Point(1.0)
    with pytest.raises(TypeError, match="'z'"):
        radar.Point(1.0, 2.0, z=3.0)
    with pytest.raises(AttributeError):
        radar.Point(1.0, 2.0).z = 3.0


def test_a_union_holds_one_member(radar):
    text = radar.Value(text="a")
    assert (text._d, text._v, text.text) == (2, "a", "a")
    with pytest.raises(AttributeError, match="holds text, not number"):
        text.number
    with pytest.raises(TypeError, match="has no member colour"):
        radar.Value(colour=1)
    assert radar.Value(77, 1.5).other == 1.5


def test_errors_of_idl_have_file_and_line(tmp_path):
    file = tmp_path / "bad.idl"
    file.write_text("module M {\n  struct S { Missing m; };\n};\n")
    with pytest.raises(isorb.IdlError, match=r"bad\.idl:2:14") as raised:
        isorb.idl(file)
    assert "Missing" in str(raised.value)
    with pytest.raises(FileNotFoundError, match="no file"):
        isorb.idl(tmp_path / "none.idl")


def test_standard_files_and_includes_are_found(tmp_path):
    assert isorb.idl("CosNaming.idl").CosNaming.NamingContext.resolve
    (tmp_path / "part.idl").write_text("struct Part { long n; };\n")
    file = tmp_path / "whole.idl"
    file.write_text('#include "part.idl"\n#include <CosNaming.idl>\nstruct Whole { Part p; };\n')
    whole = isorb.idl(file)
    assert whole.Whole(whole.Part(1)).p.n == 1
    (tmp_path / "macro.idl").write_text("#ifdef BIG\nconst long N = BIG;\n#endif\n")
    assert isorb.idl(tmp_path / "macro.idl", defines={"BIG": "7"}).N == 7


def test_words_of_python_get_an_underscore():
    it = isorb.idl_text("struct S { long class; }; interface I { void pass(in long from); };")
    assert it.S(_class=1)._class == 1
    assert it.I._pass


def test_members_may_be_called_as_words_of_the_package():
    it = isorb.idl_text(
        "struct S { long self; long call; }; exception E { long self; string str; };"
        "interface I { long f(in long self, in long call); };"
    )
    assert it.S(1, call=2).self == 1 and it.S(self=1, call=2) == it.S(1, 2)
    assert it.E(self=1, str="x").str == "x"
    assert it.I.f


def test_valuetypes_are_refused_by_name():
    it = isorb.idl_text("valuetype V { public long n; }; interface I { void take(in V it); void other(); };")
    with isorb.Orb() as orb:
        reference = orb.object("corbaloc::127.0.0.1:1/x").narrow(it.I, check=False)
        with pytest.raises(TypeError, match="::V has no values in Python"):
            reference.take(None)


def test_hostile_idl_ends_in_an_error():
    for text in ["struct S { S s; };", "interface I : I {};", "\x00", "module " * 10_000, "struct S {" + "sequence<" * 5000]:
        with pytest.raises(isorb.IdlError):
            isorb.idl_text(text)
