"""Cases of the groups about objects."""

import threading
import time

import omniORB
from omniORB import CORBA
import Interop
import Interop__POA
from Interop import Factories, Link, Mixed, OverLong, Point, Thing, blue, green, red

import common
from check import Failure, Skip, check_echo, expect, expect_raise, plain


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def id_of(thing):
    return "nil" if thing is None else thing._narrow(Thing)._get_id()


def references(run):
    o, factories = run.group(Interop.References), run.group(Factories, "factories")
    things, names = [factories.create("first"), factories.create("second"), None], ["first", "second", "nil"]
    check_echo(o, "echo_thing", things)
    check_echo(o, "echo_object", things)
    check_echo(o, "echo_things", [[], things])
    check_echo(o, "echo_link", [Link("label", thing) for thing in things])
    for thing, name in zip(things, names):
        result, inout, out = o.echo_thing(thing, None)
        expect(id_of(result) == name and id_of(inout) == name and out is None)
        expect(o.id_of(thing) == name)


def factories(run):
    o = run.group(Factories)
    one, two = o.create("same"), o.create("same")
    expect(o.nobody() is None)
    expect(not one._is_equivalent(two))
    expect(one.add(5) == 5 and one.add(-7) == -2 and two.add(1) == 1)
    most = (1 << 31) - 1
    expect(one.add(most) == most - 2 and one.add(most) == 2 * most - 2)
    one.destroy()
    expect_raise(CORBA.OBJECT_NOT_EXIST, one.add, 1)
    expect(two.add(1) == 2)
    names = [str(i) for i in range(50)]
    expect([id_of(thing) for thing in o.create_many(names)] == names)


def inheritance(run):
    o = run.group(Interop.Inheritance)
    base, left, right, bottom = o.as_base(), o.as_left(), o.as_right(), o.as_bottom()
    only_base = o.plain()
    expect(only_base.base_name() == "base")
    expect(only_base._narrow(Interop.Bottom) is None)
    narrowed = base._narrow(Interop.Bottom)
    expect((narrowed.left_name(), narrowed.right_name(), narrowed.bottom_name()) == ("left", "right", "bottom"))
    expect(left.base_name() == "base" and left._narrow(Interop.Right).right_name() == "right")
    bottom._set_level(41)
    expect((left._get_level(), right._get_level(), base._get_level()) == (41, 41, 41))
    only_base._set_level(7)
    expect(bottom._get_level() == 41 and only_base._get_level() == 7)


def objects(run):
    o = run.group(Factories, "factories")
    one, two = o.create("one"), o.create("two")
    expect(one._is_a("IDL:Interop/Thing:1.0"))
    expect(one._is_a("IDL:omg.org/CORBA/Object:1.0"))
    expect(not one._is_a("IDL:Interop/Factories:1.0"))
    expect(not one._non_existent())
    expect(one._is_equivalent(one) and not one._is_equivalent(two))
    expect(one._hash(1000) <= 1000)
    one.destroy()
    expect(one._non_existent())
    wrong = run.suite.group("scalars")._unchecked_narrow(Thing)
    expect_raise(CORBA.BAD_OPERATION, wrong.destroy)
    expect(id_of(run.orb.string_to_object(run.orb.object_to_string(two))) == "two")
    expect(expect_raise(Interop.NoSuchGroup, run.suite.group, "no such group").name == "no such group")


def user_exceptions(run):
    o = run.group(Interop.UserExceptions)
    expect_raise(Interop.Empty, o.raise_empty)
    expect(o.raise_plain(0, "fine") == (1, "fine"))
    for code, why in ((-5, "reason"), (-(1 << 31), "")):
        e = expect_raise(Interop.Plain, o.raise_plain, code, why)
        expect((e.code, e.why) == (code, why))
    members = [blue, Mixed("detail", green, Point(1, 2), 3), [0.0, 0.25, 0.5], OverLong(2, "choice")]
    e = expect_raise(Interop.Rich, o.raise_rich, *members)
    expect(plain([e.paint, e.detail, e.samples, e.choice]) == plain(members))
    expect_raise(Interop.Empty, o.raise_empty)


# Those that an ORB takes as a sign to try again (COMM_FAILURE, TRANSIENT, OBJECT_NOT_EXIST, NO_RESPONSE) are sent as
# maybe only. omniORB lacks INVALID_ACTIVITY, ACTIVITY_COMPLETED and ACTIVITY_REQUIRED.
SYSTEM = """UNKNOWN BAD_PARAM NO_MEMORY IMP_LIMIT COMM_FAILURE INV_OBJREF NO_PERMISSION INTERNAL MARSHAL INITIALIZE
NO_IMPLEMENT BAD_TYPECODE BAD_OPERATION NO_RESOURCES NO_RESPONSE PERSIST_STORE BAD_INV_ORDER TRANSIENT FREE_MEM INV_IDENT
INV_FLAG INTF_REPOS BAD_CONTEXT OBJ_ADAPTER DATA_CONVERSION OBJECT_NOT_EXIST TRANSACTION_REQUIRED TRANSACTION_ROLLEDBACK
INVALID_TRANSACTION INV_POLICY CODESET_INCOMPATIBLE REBIND TIMEOUT TRANSACTION_UNAVAILABLE TRANSACTION_MODE BAD_QOS""".split()
RETRIED = ("COMM_FAILURE", "TRANSIENT", "OBJECT_NOT_EXIST", "NO_RESPONSE")


def system_exceptions(run):
    o = run.group(Interop.SystemExceptions)
    minors, count = (0, 1, 0x4F4D0002, 0xFFFFFFFE), 0
    for name in SYSTEM:
        for completed in range(3):
            if name in RETRIED and completed != 2:
                continue
            minor, count = minors[count % 4], count + 1
            try:
                o.raise_system(name, minor, completed)
            except CORBA.SystemException as e:
                got = (type(e).__name__, e.minor & 0xFFFFFFFF, e.completed._v)  # omniORBpy shows a signed number
                if got != (name, minor, completed):
                    raise Failure("%r came as %r" % ((name, minor, completed), got))
            else:
                raise Failure("no exception for " + name)
    expect(expect_raise(CORBA.BAD_PARAM, o.raise_system, "NONSENSE", 5, 0).minor == 0)
    expect_raise(CORBA.UNKNOWN, o.raise_native)


def attributes(run):
    o = run.group(Interop.Attributes)
    before = o._get_changes()
    for label in ("new label", ""):
        o._set_label(label)
        expect(o._get_label() == label)
    expect(o._get_changes() == before + 2)
    detail = Mixed("attribute", blue, Point(-1, 1), 255)
    o._set_detail(detail)
    expect(plain(o._get_detail()) == plain(detail))
    for paint in (green, red):
        o._set_paint(paint)
        expect(o._get_paint() == paint)


def oneways(run):
    o = run.group(Interop.Oneways)
    o.reset()
    for i in range(100):
        o.ping()
        o.add(i)
        o.send(bytes(1000))
    within(10, lambda: o.total() == 100 + 4950 + 100000)
    expect(o.total() == 100 + 4950 + 100000)


class Receiver(Interop__POA.Receiver):
    poked = 0

    def receive(self, text, number):
        return "%s:%d" % (text, number)

    def poke(self, number):
        self.poked = number


def call_back_through(run, poa):
    o, servant = run.group(Interop.Callbacks), Receiver()
    oid = poa.activate_object(servant)
    receiver = poa.id_to_reference(oid)._narrow(Interop.Receiver)
    expect(o.call_back(receiver, "hello", 10) == 10)
    expect(o.call_back(receiver, "z" * (2000 if run.options.giop == "1.1" else 20000), 2) == 2)
    o.poke_back(receiver, 4711)
    expect(within(10, lambda: servant.poked == 4711))
    poa.deactivate_object(oid)


def callbacks(run):
    if run.options.bidir:
        raise Skip("under --bidir the same is case bidirectional")
    call_back_through(run, run.root)


def bidirectional(run):
    call_back_through(run, common.bidirectional_poa(run.orb, run.root))


def forwards(run):
    o = run.group(Interop.Forwards)
    before, moved = o.made(), o.create("moved thing")
    expect(moved.add(40) == 40)
    expect(moved.add(2) == 42)
    expect(id_of(moved) == "moved thing")
    expect(o.made() > before)
    other = o.create("another")
    expect(id_of(other) == "another" and other.add(1) == 1 and moved.add(0) == 42)
    checked = o.create("checked")
    expect(not checked._non_existent())
    expect(checked._is_a("IDL:Interop/Thing:1.0"))


def timeouts(run):
    o = run.group(Interop.Slow)
    expect(o.sleep_ms(0) == 0)
    omniORB.setClientCallTimeout(o, 300)
    start = time.monotonic()
    expect_raise(CORBA.TIMEOUT, o.sleep_ms, 3000)
    expect(time.monotonic() - start >= 0.29)
    omniORB.setClientCallTimeout(o, 0)
    expect(o.sleep_ms(20) == 20)


def pattern(length):
    return (bytes(range(251)) * (length // 251 + 1))[:length]


def large(run):
    o = run.group(Interop.Large)
    # Around the sizes where ORBs cut fragments, and the 12 MiB of the contract.
    for length in (0, 1, 7, 8100, 8191, 8192, 8193, 65535, 65536, 1 << 20, 12 << 20):
        a = pattern(length)
        result, inout, out = o.echo_octets(a, b"abc")
        expect(result == a and inout == a and out == b"abc")
        expect(o.pattern(length) == a)
        expect(o.sum(a) == sum(a))
    check_echo(o, "echo_string", ["a" * 8185, "b" * (1 << 20), ""])
    check_echo(o, "echo_doubles", [[i * 0.5 for i in range(131072)], []])
    colours = (red, green, blue)
    check_echo(o, "echo_mixeds", [[Mixed("n" * (i % 40), colours[i % 3], Point(i, -i), i % 256) for i in range(20000)], []])


def parallel(run):
    o, problems = run.group(Interop.Large), []

    def work(t):
        try:
            for i in range(40):
                length = 16 + t if i % 2 else 60000 + 1000 * t + i
                data = o.pattern(length)
                if data != pattern(length) or o.sum(data) != sum(data):
                    raise Failure("an answer belongs to another call")
        except Exception as e:
            problems.append(repr(e))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise Failure(problems[0])


def interleaving(run):
    """Threads with calls on one connection: the reply to the first call is the last."""
    o = run.group(Interop.Slow, "timeouts")
    for longest in (500, 4000, 16000):  # a machine that is busy tells nothing with the first time
        order, wrong = [], []

        def work(ms):
            try:
                if o.sleep_ms(ms) != ms:
                    wrong.append(ms)
            except Exception as e:
                wrong.append(repr(e))
            order.append(ms)

        threads = [threading.Thread(target=work, args=(ms,)) for ms in [longest] + [i % 20 for i in range(1, 64)]]
        threads[0].start()
        time.sleep(0.1)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            raise Failure("an answer belongs to another call: %r" % wrong[0])
        if order[-1] == longest:
            return
    raise Failure("the calls of a connection are served one after the other")


def contexts(run):
    o = run.group(Interop.Contexts)
    context = CORBA.Context("child", None, {"interop_one": "first", "single": "alone", "hidden": "not passed on"})
    expect(o.lookup("interop_one", context) == "first")
    expect(o.lookup("single", context) == "alone")
    expect(o.lookup("hidden", context) == "")


CASES = {f.__name__: f for f in (references, factories, inheritance, objects, user_exceptions, system_exceptions, attributes, oneways,
                                 callbacks, bidirectional, forwards, timeouts, large, parallel, interleaving, contexts)}
