import decimal
import gc
import subprocess
import threading

import pytest

import isorb
from conftest import HERE, omni, until


def plot(radar, **other):
    values = dict(id=1, name="bogey", at=radar.Point(3.5, -1.0), state=radar.search, raw=b"\x01\x02")
    return radar.Plot(**{**values, **other})


def test_values_come_back(remote, radar):
    assert remote.add(2, 3) == 5
    assert remote.add(b=1, a=2) == 3
    assert remote.echo_plot(plot(radar)) == plot(radar)
    assert remote.echo_plots([plot(radar), plot(radar, name="größer")])[1].name == "größer"
    assert remote.echo_value(radar.Value(number=5)).number == 5
    assert remote.echo_value(radar.Value(9, 2.5)) == radar.Value(9, 2.5)
    tree = radar.Tree("a", [radar.Tree("b", []), radar.Tree("c", [radar.Tree("d", [])])])
    assert remote.echo_tree(tree) == tree
    assert remote.echo_numbers([1, 2.5, -3.0]) == [1.0, 2.5, -3.0]
    assert remote.echo_names(("a", "", "ü")) == ["a", "", "ü"]
    assert remote.echo_matrix([[1, 2, 3], (4, 5, 6)]) == [[1, 2, 3], [4, 5, 6]]
    assert remote.echo_price(decimal.Decimal("-12.50")) == decimal.Decimal("-12.50")
    assert remote.echo_wide("weiß 世") == "weiß 世"
    assert remote.split("radar", "!") == (5, "r", "adar!")
    assert remote.octets(bytes(100_000)) == remote.octets(bytearray(100_000)) == 100_000
    assert remote.octets([1, 2, 255]) == 3


def test_attributes_are_properties(remote):
    assert remote.name == "front" and remote._get_name() == "front"
    remote.gain = 2
    assert remote.gain == 2.0
    with pytest.raises(AttributeError):
        remote.name = "other"


def test_any_carries_types(remote, radar):
    for value in [True, 7, 1 << 40, 2.5, "text", plot(radar), radar.track]:
        assert remote.echo_any(value).value == value
    short = remote.echo_any(isorb.Any(7, "short"))
    assert (short.value, str(short.type)) == (7, "short")
    assert short == isorb.Any(7, "short")
    assert remote.echo_any(None).value is None
    with pytest.raises(TypeError, match="isorb.Any"):
        remote.echo_any(object())


def test_references_travel_and_narrow(remote, radar):
    back = remote.echo_object(remote)
    assert back == remote and hash(back) == hash(remote)
    assert isinstance(back, radar.Sensor)
    assert remote.echo_object(None) is None
    assert back.is_a("IDL:Radar/Named:1.0") and not back.non_existent()
    assert isinstance(back.narrow(radar.Named), radar.Named)
    with pytest.raises(TypeError, match="is no Listener"):
        back.narrow(radar.Listener)


def test_user_exceptions_are_exceptions(remote, radar):
    with pytest.raises(radar.Refused) as raised:
        remote.add(-1, 0)
    assert (raised.value.why, raised.value.code) == ("below zero", -1)
    assert isinstance(raised.value, isorb.UserException)
    with pytest.raises(radar.Busy):
        remote.add(-2, 0)


def test_system_exceptions_have_minor_code_and_completion(orb, radar):
    with pytest.raises(isorb.TRANSIENT) as raised:
        orb.object("corbaloc::127.0.0.1:1/none").narrow(radar.Sensor, check=False).add(1, 2)
    assert raised.value.completed == "COMPLETED_NO" and "127.0.0.1:1" in str(raised.value)
    assert isinstance(raised.value, isorb.SystemException)
    with pytest.raises(isorb.BAD_PARAM):
        orb.object("nonsense:")


def test_an_exception_of_a_servant_is_unknown(remote):
    with pytest.raises(isorb.UNKNOWN):
        remote.fail()
    assert remote.add(1, 1) == 2


def test_a_time_out_ends_a_call(remote):
    with pytest.raises(isorb.TIMEOUT):
        remote.with_timeout(0.05).wait(2.0)
    with pytest.raises(ValueError, match="seconds"):
        remote.with_timeout(-1)


def test_oneways_and_words_of_python(remote):
    remote.note("a")
    until(lambda: "a" in remote.notes(), "the oneway")
    remote._from(3)
    assert "from 3" in remote.notes()


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda s, r: s.add("1", 2), TypeError, r"Radar::Sensor::add: a: expected long, an int, not str '1'"),
        (lambda s, r: s.add(1.0, 2), TypeError, "a: expected long, an int, not float 1.0"),
        (lambda s, r: s.add(1 << 31, 2), ValueError, "a: expected long, -2147483648 to 2147483647, not int"),
        (lambda s, r: s.add(1), TypeError, "'b'"),
        (lambda s, r: s.echo_plot(None), TypeError, "it: expected Radar::Plot, not None"),
        (lambda s, r: s.echo_plot(plot(r, at=r.Point(1, "2"))), TypeError, r"it\.at\.y: expected double, a float, not str '2'"),
        (lambda s, r: s.echo_plot(plot(r, state=2)), TypeError, r"it\.state: expected Radar::Mode, not int 2"),
        (lambda s, r: s.echo_plots([plot(r), 7]), TypeError, r"them\[1\]: expected Radar::Plot, not int 7"),
        (lambda s, r: s.echo_names("abc"), TypeError, "them: expected sequence<string>, a list, not str"),
        (lambda s, r: s.echo_names({"a": 1}), TypeError, "them: expected sequence<string>, a list, not dict"),
        (lambda s, r: s.echo_numbers(7), TypeError, "them: expected sequence<double>, a list, not int 7"),
        (lambda s, r: s.echo_matrix([[1, 2, 3]]), ValueError, r"it: expected long\[3\]\[2\]|it: expected .*, not 1 elements"),
        (lambda s, r: s.echo_value(r.Value(1, "x")), TypeError, r"it\.number: expected long"),
        (lambda s, r: s.echo_price(decimal.Decimal("1234567.5")), ValueError, "fixed<7, 2>"),
        (lambda s, r: s.echo_price("1"), TypeError, "decimal"),
        (lambda s, r: s.subscribe("IOR:00"), TypeError, "it: expected a reference to Listener, or None"),
        (lambda s, r: s.note("a\0b"), ValueError, "zero"),
        (lambda s, r: s.note("\ud800"), ValueError, "surrogate"),
        (lambda s, r: s.octets(["a"]), TypeError, r"them\[0\]: expected octet"),
        (lambda s, r: s.octets([256]), ValueError, r"them\[0\]: expected octet, 0 to 255"),
        (lambda s, r: s.narrow_numbers(1, "c", 1, 1, 1, 1, 1, 1, 1.0, ""), TypeError, "b: expected boolean"),
        (lambda s, r: s.narrow_numbers(True, "cc", 1, 1, 1, 1, 1, 1, 1.0, ""), TypeError, "c: expected char"),
        (lambda s, r: s.narrow_numbers(True, "世", 1, 1, 1, 1, 1, 1, 1.0, ""), ValueError, "c: expected char"),
        (lambda s, r: s.narrow_numbers(True, "c", 1, 1, 1, -1, 1, 1, 1.0, ""), ValueError, "ul: expected unsigned long"),
        (lambda s, r: s.narrow_numbers(True, "c", 1, 1, 1, 1, 1, 1 << 64, 1.0, ""), ValueError, "ull: expected"),
        (lambda s, r: s.narrow_numbers(True, "c", 1, 1, 1, 1, 1, 1, 1e300, ""), ValueError, "f: expected float"),
        (lambda s, r: s.narrow_numbers(True, "c", 1, 1, 1, 1, 1, 1, 1.0, "12345"), ValueError, "bounded: expected string<4>"),
    ],
)
def test_wrong_values_are_named(own, radar, call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(own, radar)


def test_deep_and_circular_values_end(own, radar):
    tree = radar.Tree("leaf", [])
    for _ in range(1000):
        tree = radar.Tree("node", [tree])
    with pytest.raises(ValueError, match="levels of nesting"):
        own.echo_tree(tree)
    circle = radar.Tree("circle", [])
    circle.branches.append(circle)
    with pytest.raises(ValueError, match="levels of nesting"):
        own.echo_tree(circle)
    circle.branches.clear()


def test_a_value_that_changes_while_it_is_written(own):
    class Hostile(float):
        pass

    numbers = []

    class Number:
        def __float__(self):
            numbers.clear()
            gc.collect()
            return 1.0

    numbers.extend([Number() for _ in range(100)])
    assert own.echo_numbers(numbers) == [1.0] * 100

    class Wrong:
        def __float__(self):
            raise RuntimeError("not today")

    with pytest.raises(TypeError, match=r"them\[0\]"):
        own.echo_numbers([Wrong()])


def test_other_threads_run_while_a_call_waits(own):
    ran = threading.Event()
    waiting = threading.Thread(target=lambda: own.wait(1.0))
    waiting.start()
    counted = 0
    while waiting.is_alive():
        counted += 1
        ran.set()
    waiting.join()
    assert counted > 1000


def test_many_threads_share_a_reference(own):
    failed = []

    def call():
        for n in range(50):
            if own.add(n, n) != 2 * n:
                failed.append(n)

    threads = [threading.Thread(target=call) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed


def test_options_of_an_orb_are_checked():
    with pytest.raises(ValueError, match="no_such_key|unknown field"):
        isorb.Orb(no_such_key=1)
    with pytest.raises(ValueError, match="lane_threads|LaneThreads"):
        isorb.Orb(lane_threads=0)
    with pytest.raises(TypeError, match="endpoints: expected"):
        isorb.Orb(endpoints=[object()])
    with isorb.Orb(["-ORBRoundTripTimeout", "500"]) as orb:
        assert "Orb" in repr(orb)


def test_names_resolve(orb, radar, own):
    # The naming context is one of Python: the client's side is what is tested.
    naming = isorb.idl("CosNaming.idl").CosNaming

    class Context:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *values: None

        def resolve(self, n):
            if [(part.id, part.kind) for part in n] == [("plant", ""), ("front", "sensor")]:
                return own
            raise naming.NamingContext.NotFound(naming.NamingContext.missing_node, n)

    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        server.serve(naming.NamingContext, Context(), key="NameService")
        (host, port), = server.endpoints
        found = orb.resolve(f"corbaname::{host}:{port}#plant/front.sensor", radar.Sensor)
        assert found.add(1, 2) == 3
        with pytest.raises(isorb.INV_OBJREF, match="is not bound"):
            orb.resolve(f"corbaname::{host}:{port}#plant/none")


def test_omniorb_calls_a_servant_in_python(radar, omni_stubs, orb, tmp_path):
    import sensor

    reference = orb.serve(radar.Sensor, sensor.make(radar)())
    command = [omni() / "python", HERE / "omni_client.py", omni_stubs, reference.ior]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and done.stdout.endswith("done\n"), done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 14
    orb.withdraw(reference)
    with pytest.raises(isorb.OBJECT_NOT_EXIST):
        reference.add(1, 2)
