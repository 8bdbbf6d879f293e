"""The omniORBpy server of the interoperability tests. Contract: interop/README.md."""

import os
import sys
import threading
import time

from omniORB import CORBA, PortableServer, PortableServer__POA
import CosNaming
import Interop
import Interop__POA

import common

# No such type in the mapping; a wchar in GIOP 1.2 is wrong in omniORBpy 4.3.3; no getraises in omniidl.
UNSUPPORTED = ["long_doubles", "wide_chars", "attribute_exceptions"]


def echo(self, a, b):
    """The echo rule of interop.idl: result = a, inout = a, out = what came in as inout."""
    return a, a, b


def servant(skeleton, **members):
    """A servant class with echo_ operations that follow the rule; `members` are its other operations."""
    for name in skeleton._omni_op_d:
        if name.startswith("echo_"):
            members[name] = echo
    return type(skeleton.__name__ + "Servant", (skeleton,), members)


class Things:
    """Makes Things."""

    def __init__(self, poa):
        self.poa = poa

    def create(self, name):
        return self.poa.id_to_reference(self.poa.activate_object(Thing(self.poa, name)))._narrow(Interop.Thing)


class Thing(Interop__POA.Thing):
    def __init__(self, poa, name):
        self.poa, self.name, self.total, self.lock = poa, name, 0, threading.Lock()

    def _get_id(self):
        return self.name

    def add(self, amount):
        with self.lock:
            self.total += amount
            return self.total

    def destroy(self):
        self.poa.deactivate_object(self.poa.servant_to_id(self))


def depth(self, root):
    return 1 + max([depth(self, child) for child in root.children], default=0)


def kind(self, value):
    return value.typecode().kind()._v


def make(self, what):
    def of(type_, value):
        return CORBA.Any(type_, value)

    if what == "null":
        return of(CORBA.TC_null, None)
    if what == "long":
        return of(CORBA.TC_long, 42)
    if what == "string":
        return of(CORBA.TC_string, "forty-two")
    if what == "mixed":
        return of(Interop._tc_Mixed, Interop.Mixed("m", Interop.green, Interop.Point(1, -2), 9))
    if what == "longs":
        return of(Interop._tc_Longs, [1, 2, 3])
    if what == "nested":
        return of(CORBA.TC_any, of(CORBA.TC_long, 42))
    if what == "tree":
        return of(Interop._tc_Tree, Interop.Tree("root", [Interop.Tree("leaf", [])]))
    raise CORBA.BAD_PARAM(0, CORBA.COMPLETED_NO)


DESCRIBED = {
    "long": CORBA.TC_long,
    "mixed": Interop._tc_Mixed,
    "tree": Interop._tc_Tree,
    "expression": Interop._tc_Expression,
    "colour": Interop._tc_Colour,
    "over_long": Interop._tc_OverLong,
    "height": Interop._tc_Height,
    "plain": Interop._tc_Plain,
    "thing": Interop._tc_Thing,
    "money": Interop._tc_Money,
    "wide": Interop._tc_Wide,
}


def describe(self, what):
    if what not in DESCRIBED:
        raise CORBA.BAD_PARAM(0, CORBA.COMPLETED_NO)
    return DESCRIBED[what]


def unaliased(type_):
    """omniORBpy's own equivalent() sees no alias at the top."""
    while type_.kind() == CORBA.tk_alias:
        type_ = type_.content_type()
    return type_


class Factories(Interop__POA.Factories):
    def __init__(self, things):
        self.things = things

    def create(self, name):
        return self.things.create(name)

    def nobody(self):
        return None

    def create_many(self, them):
        return [self.things.create(name) for name in them]


class BaseMembers:
    value = 0

    def base_name(self):
        return "base"

    def _get_level(self):
        return self.value

    def _set_level(self, value):
        self.value = value


class Base(BaseMembers, Interop__POA.Base):
    pass


class Bottom(BaseMembers, Interop__POA.Bottom):
    def left_name(self):
        return "left"

    def right_name(self):
        return "right"

    def bottom_name(self):
        return "bottom"


class Inheritance(Interop__POA.Inheritance):
    def __init__(self):
        self.only_base, self.bottom = Base()._this(), Bottom()._this()

    def plain(self):
        return self.only_base

    def as_base(self):
        return self.bottom

    as_left = as_right = as_bottom = as_base


class UserExceptions(Interop__POA.UserExceptions):
    def raise_empty(self):
        raise Interop.Empty()

    def raise_plain(self, code, why):
        if code:
            raise Interop.Plain(code, why)
        return 1, why

    def raise_rich(self, paint, detail, samples, choice):
        raise Interop.Rich(paint, detail, samples, choice)


class SystemExceptions(Interop__POA.SystemExceptions):
    def raise_system(self, name, minor, completed):
        exception = getattr(CORBA, name, None)
        if not (isinstance(exception, type) and issubclass(exception, CORBA.SystemException)):
            raise CORBA.BAD_PARAM(0, CORBA.COMPLETED_NO)
        raise exception(minor, [CORBA.COMPLETED_YES, CORBA.COMPLETED_NO, CORBA.COMPLETED_MAYBE][completed])

    def raise_native(self):
        raise ValueError("no CORBA exception")


class Attributes(Interop__POA.Attributes):
    def __init__(self):
        self.count, self.label = 0, ""
        self.detail, self.paint = Interop.Mixed("", Interop.red, Interop.Point(0, 0), 0), Interop.red

    def _get_changes(self):
        return self.count

    def _get_label(self):
        return self.label

    def _set_label(self, value):
        self.label = value
        self.count += 1

    def _get_detail(self):
        return self.detail

    def _set_detail(self, value):
        self.detail = value

    def _get_paint(self):
        return self.paint

    def _set_paint(self, value):
        self.paint = value


class Oneways(Interop__POA.Oneways):
    def __init__(self):
        self.sum, self.lock = 0, threading.Lock()

    def add(self, amount):
        with self.lock:
            self.sum += amount

    def send(self, data):
        self.add(len(data))

    def ping(self):
        self.add(1)

    def total(self):
        return self.sum

    def reset(self):
        self.sum = 0


class Callbacks(Interop__POA.Callbacks):
    def call_back(self, to, text, times):
        return sum(to.receive(text, i) == "%s:%d" % (text, i) for i in range(times))

    def poke_back(self, to, number):
        to.poke(number)


class Moved(PortableServer__POA.ServantLocator):
    """The locator of the POA "moved": each request for an object is forwarded to the Thing of the same id."""

    def __init__(self):
        self.targets, self.forwards, self.lock = {}, 0, threading.Lock()

    def preinvoke(self, oid, poa, operation):
        if oid not in self.targets:
            raise CORBA.OBJECT_NOT_EXIST(0, CORBA.COMPLETED_NO)
        with self.lock:
            self.forwards += 1
        raise PortableServer.ForwardRequest(self.targets[oid])

    def postinvoke(self, oid, poa, operation, cookie, servant_):
        pass


class Forwards(Interop__POA.Forwards):
    def __init__(self, root, things):
        policies = [
            root.create_servant_retention_policy(PortableServer.NON_RETAIN),
            root.create_request_processing_policy(PortableServer.USE_SERVANT_MANAGER),
            root.create_id_assignment_policy(PortableServer.USER_ID),
        ]
        self.poa = root.create_POA("moved", root._get_the_POAManager(), policies)
        self.moved, self.things = Moved(), things
        self.poa.set_servant_manager(self.moved._this())

    def create(self, name):
        oid = b"moved-%d" % len(self.moved.targets)
        self.moved.targets[oid] = self.things.create(name)
        reference = self.poa.create_reference_with_id(oid, CORBA.id(Interop.Thing))
        return reference._unchecked_narrow(Interop.Thing)

    def made(self):
        return self.moved.forwards


class Slow(Interop__POA.Slow):
    def sleep_ms(self, ms):
        time.sleep(ms / 1000)
        return ms


class Contexts(Interop__POA.Contexts):
    def lookup(self, key, context):
        try:
            values = context.get_values(key)
        except CORBA.BAD_CONTEXT:
            return ""
        return values.get(key, "")


class Suite(Interop__POA.Suite):
    def __init__(self, orb, unsupported):
        self.orb, self.names, self.groups = orb, unsupported, {}

    def _get_peer(self):
        return "omniorbpy"

    def unsupported(self):
        return self.names

    def group(self, name):
        if name not in self.groups:
            raise Interop.NoSuchGroup(name)
        return self.groups[name]

    def shutdown(self):
        self.orb.shutdown(False)


def bind(orb, options, reference):
    """Binds in naming, making the contexts on the way."""
    context = orb.string_to_object(options.ns)._narrow(CosNaming.NamingContext)
    path = common.to_name(options.name)
    for length in range(1, len(path)):
        try:
            context.bind_new_context(path[:length])
        except CosNaming.NamingContext.AlreadyBound:
            pass
    context.rebind(path, reference)


def main():
    options = common.parse(server=True)
    orb = common.init(options, server=True)
    root = orb.resolve_initial_references("RootPOA")
    plain_keys = orb.resolve_initial_references("omniINSPOA")  # so that corbaloc:...:PORT/Interop finds the root object
    # Before the servant manager is set: omniORBpy calls it through the POA, which would hold the call for ever.
    root._get_the_POAManager().activate()
    things = Things(root)
    suite = Suite(orb, UNSUPPORTED)

    def add(names, object_, poa=root):
        reference = poa.id_to_reference(poa.activate_object(object_))
        for name in names.split():
            suite.groups[name] = reference

    pattern = bytes(range(251))
    poa = Interop__POA
    add("scalars", servant(poa.Scalars, nothing=lambda self: None)())
    add("floats", servant(poa.FloatingPoint)())
    add("strings utf8_strings", servant(poa.NarrowStrings)())
    for name, skeleton in {
        "wides": poa.Wides,
        "bounded_wides": poa.BoundedWides,
        "enums": poa.Enums,
        "structs": poa.Structs,
        "unions union_labels": poa.Unions,
        "sequences": poa.Sequences,
        "arrays": poa.Arrays,
        "fixeds fixed_zeros": poa.Fixeds,
        "typedefs": poa.Typedefs,
    }.items():
        add(name, servant(skeleton)())
    add("recursive", servant(poa.Recursive, depth=depth)())
    add("anys", servant(poa.AnyValues, kind=kind, make=make)())
    add(
        "typecodes",
        servant(
            poa.TypeCodes,
            same=lambda self, a, b: a.equal(b),
            equivalent=lambda self, a, b: unaliased(a).equivalent(unaliased(b)),
            describe=describe,
        )(),
    )
    add("references", servant(poa.References, id_of=lambda self, a: "nil" if a is None else a._get_id())())
    add("factories", Factories(things))
    add("inheritance", Inheritance())
    add("user_exceptions", UserExceptions())
    add("system_exceptions", SystemExceptions())
    add("attributes", Attributes())
    add("oneways", Oneways())
    add("callbacks bidirectional", Callbacks(), common.bidirectional_poa(orb, root) if options.bidir else root)
    add("forwards", Forwards(root, things))
    add("timeouts", Slow())
    add(
        "large parallel",
        servant(
            poa.Large,
            pattern=lambda self, length: (pattern * (length // 251 + 1))[:length],
            sum=lambda self, data: sum(data),
        )(),
    )
    add("contexts", Contexts())

    plain_keys.activate_object_with_id(b"Interop", suite)
    reference = plain_keys.id_to_reference(b"Interop")
    plain_keys._get_the_POAManager().activate()
    if options.ns:
        bind(orb, options, reference)
    with open(options.ior_file, "w") as out:
        out.write(orb.object_to_string(reference) + "\n")
    print("READY", flush=True)

    def until_end_of_input():
        while os.read(0, 4096):
            pass
        orb.shutdown(False)

    threading.Thread(target=until_end_of_input, daemon=True).start()
    orb.run()
    sys.stdout.flush()
    os._exit(0)


main()
