import gc
import threading
import weakref

import pytest

import isorb
import sensor
from conftest import until


class Listener:
    def __init__(self, orb=None, radar=None):
        self.plots, self.threads, self.orb, self.radar, self.own = [], set(), orb, radar, None

    def seen(self, it):
        self.plots.append(it)
        self.threads.add(threading.current_thread().name)

    def depth(self, other, left):
        return 0 if left == 0 else 1 + other.depth(self.own, left - 1)


def test_call_backs_reach_an_instance(orb, radar, remote):
    listener = Listener()
    reference = orb.serve(radar.Listener, listener)
    remote.subscribe(reference)
    assert listener.plots[-1] == radar.Plot(7, "seen", radar.Point(1.0, 2.0), radar.track, b"\x00\x01")
    # A thread of the ORB, which Python does not know by name.
    assert not any(name == "MainThread" for name in listener.threads)
    orb.withdraw(reference)


def test_nested_call_backs_over_two_orbs(radar, orb):
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as second:
        one, two = Listener(), Listener()
        one.own = orb.serve(radar.Listener, one)
        two.own = second.serve(radar.Listener, two)
        at_one = second.object(one.own.ior, radar.Listener)
        assert at_one.depth(two.own, 8) == 8
        orb.withdraw(one.own)


def test_deeper_call_backs_need_more_connections(radar):
    options = dict(endpoints=["127.0.0.1:0"], connections_per_server=20)
    with isorb.Orb(**options) as first, isorb.Orb(**options) as second:
        one, two = Listener(), Listener()
        one.own = first.serve(radar.Listener, one)
        two.own = second.serve(radar.Listener, two)
        assert second.object(one.own.ior, radar.Listener).depth(two.own, 30) == 30


def test_too_deep_call_backs_name_the_setting(radar):
    # The third call waits on the connection of the first, until that ends.
    options = dict(endpoints=["127.0.0.1:0"], connections_per_server=1)
    with isorb.Orb(**options, round_trip_timeout_ms=3000) as first, isorb.Orb(**options) as second:
        one, two = Listener(), Listener()
        one.own = first.serve(radar.Listener, one)
        two.own = second.serve(radar.Listener, two)
        with pytest.raises(isorb.TIMEOUT, match="connections_per_server"):
            first.object(two.own.ior, radar.Listener).depth(one.own, 4)


def test_a_key_names_an_object(orb, radar):
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        server.serve(radar.Sensor, sensor.make(radar)(), key="Front")
        (host, port), = server.endpoints
        assert orb.object(f"corbaloc::{host}:{port}/Front", radar.Sensor).add(20, 3) == 23


def test_a_servant_without_a_method_is_refused(orb, radar):
    with pytest.raises(TypeError, match="object has no name, which Radar::Named::name needs"):
        orb.serve(radar.Sensor, object())
    with pytest.raises(TypeError, match="expected the class of an interface, not"):
        orb.serve(int, 7)
    with pytest.raises(TypeError, match="expected the class of an interface"):
        orb.serve(radar.Point, object())


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("x", "expected long, an int, not str 'x'"),
        (None, "expected long, an int, not None"),
        (1 << 40, "expected long"),
    ],
)
def test_a_wrong_result_is_unknown_and_logged(orb, radar, caplog, returned, sentence):
    class Wrong(sensor.make(radar)):
        def add(self, a, b):
            return returned

    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        reference = orb.object(server.serve(radar.Sensor, Wrong()).ior, radar.Sensor)
        with pytest.raises(isorb.UNKNOWN):
            reference.add(1, 2)
        assert sentence in caplog.text
        assert reference.octets(b"123") == 3


def test_a_servant_raises_system_exceptions(orb, radar):
    class Guarded(sensor.make(radar)):
        def add(self, a, b):
            raise isorb.NO_PERMISSION("only the operator may", minor=7, completed="COMPLETED_YES")

        def octets(self, them):
            raise SystemExit("a servant does not end the process")

        def fail(self):
            raise radar.Refused("not listed", 1)

        def split(self, text, tail):
            return 1, 2

    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        reference = orb.object(server.serve(radar.Sensor, Guarded()).ior, radar.Sensor)
        with pytest.raises(isorb.NO_PERMISSION) as raised:
            reference.add(1, 2)
        assert (raised.value.minor, raised.value.completed) == (7, "COMPLETED_YES")
        for call in (lambda: reference.octets(b""), reference.fail, lambda: reference.split("", "")):
            with pytest.raises(isorb.UNKNOWN):
                call()


def test_garbage_is_collected_while_calls_are_under_way(orb, radar, own):
    stop = threading.Event()

    def collect():
        while not stop.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        for n in range(100):
            tree = radar.Tree("a", [radar.Tree(str(n), [])])
            tree.branches.append(tree.branches[0])
            assert own.echo_tree(tree).branches[1].label == str(n)
    finally:
        stop.set()
        collector.join()


def test_a_withdrawn_servant_is_freed(radar):
    servant = sensor.make(radar)()
    known = weakref.ref(servant)
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        reference = server.serve(radar.Sensor, servant)
        del servant
        gc.collect()
        assert known() is not None and reference.add(1, 1) == 2
        server.withdraw(reference)
        until(lambda: gc.collect() is not None and known() is None, "the end of the servant")


def test_a_process_may_serve_more_instances_than_interfaces(radar):
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        for _ in range(4200):
            server.withdraw(server.serve(radar.Listener, Listener()))


def test_a_servant_cannot_wait_for_its_own_end(radar, orb):
    class Sensor(sensor.make(radar)):
        def fail(self):
            server.shutdown()

    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        reference = orb.object(server.serve(radar.Sensor, Sensor()).ior, radar.Sensor)
        with pytest.raises(isorb.BAD_INV_ORDER):
            reference.fail()
        assert reference.add(1, 2) == 3


def test_an_interrupt_ends_the_run(orb, interrupted):
    interrupted(orb.run)


def test_after_shutdown_calls_fail(radar):
    orb = isorb.Orb()
    reference = orb.serve(radar.Sensor, sensor.make(radar)())
    orb.shutdown()
    with pytest.raises(isorb.SystemException):
        reference.add(1, 2)
    assert orb.run(timeout=0.01)
    orb.shutdown()


def test_the_interpreter_ends_while_it_serves(run_python):
    printed = run_python("""
import pathlib, threading, isorb, sensor
radar = isorb.idl(pathlib.Path(sensor.__file__).with_name("radar.idl")).Radar
server, client = isorb.Orb(endpoints=["127.0.0.1:0"]), isorb.Orb()
reference = client.object(server.serve(radar.Sensor, sensor.make(radar)()).ior, radar.Sensor)

def call():
    try:
        while True:
            reference.add(1, 2)
    except isorb.SystemException:
        pass

for _ in range(2):  # With the others no more than the connections, so that none waits behind `wait`.
    threading.Thread(target=call, daemon=True).start()
threading.Thread(target=lambda: reference.wait(30.0), daemon=True).start()
while reference.add(1, 2) != 3:
    pass
print("ends")
""")
    assert printed == "ends\n"
