import subprocess

import pytest

import isorb
from conftest import until

GPS, INS = 1, 2
POSITION = 16


@pytest.fixture(scope="module")
def channel(program, orb):
    """An event channel as a process, as users have it."""
    command = [program, "event-channel", "--real-time", "off", "-ORBEndPoint", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = next(word for line in process.stdout for word in line.split() if word.startswith(("IOR:", "corbaloc:")))
        yield isorb.EventChannel(orb, url)
    finally:
        process.kill()
        process.wait()


def test_events_with_values_come_in_order(channel, radar):
    with channel.consume(type=POSITION, source=GPS, payload=radar.Point) as consumer:
        supplier = channel.supplier()
        for n in range(20):
            supplier.push(POSITION, GPS, radar.Point(n, -n))
            supplier.push(POSITION, INS, radar.Point(0, 0))
        events = [consumer.next(timeout=30) for _ in range(20)]
        assert [event.value for event in events] == [radar.Point(n, -n) for n in range(20)]
        assert all((event.type, event.source) == (POSITION, GPS) for event in events)
        assert consumer.next(timeout=0) is None
        assert consumer.counts()["received"] == 20
        supplier.close()


def test_a_full_queue_drops_and_counts(channel):
    with channel.consume(type=POSITION, queue=3) as consumer:
        supplier = channel.supplier()
        for n in range(5):
            supplier.push(POSITION, GPS, bytes([n]))
        until(lambda: consumer.counts()["received"] == 5, "five events")
        assert [consumer.next(timeout=0).octets for _ in range(3)] == [b"\0", b"\1", b"\2"]
        assert consumer.counts()["dropped"] == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_handler_runs_and_may_fail(channel, radar):
    seen = []

    def handle(event):
        seen.append(event.value.x)
        if event.value.x == 1.0:
            raise ValueError("a mistake of the handler")

    with channel.consume(handle, type=POSITION, payload=radar.Point):
        supplier = channel.supplier()
        for n in range(3):
            supplier.push(POSITION, GPS, radar.Point(n, 0))
        until(lambda: len(seen) == 3, "three events")
    assert seen == [0.0, 1.0, 2.0]


def test_a_handler_may_push_and_close(channel):
    seen = []
    supplier = channel.supplier()

    def handle(event):
        seen.append(event.type)
        if event.type < POSITION + 3:
            supplier.push(event.type + 1, INS)
        else:
            consumer.close()
            seen.append("closed")

    consumer = channel.consume(handle, source=INS)
    supplier.push(POSITION, INS)
    until(lambda: seen[-1:] == ["closed"], "the end of the consumer")
    assert seen == [POSITION, POSITION + 1, POSITION + 2, POSITION + 3, "closed"]


def test_an_interrupt_ends_waiting(channel, interrupted):
    with channel.consume(type=99) as consumer:
        interrupted(lambda: consumer.next(timeout=None))


def test_octets_that_are_no_value(channel, radar):
    with channel.consume(type=POSITION, payload=radar.Point) as consumer:
        supplier = channel.supplier()
        for octets in (b"", b"\x01", b"\x01" * 5):
            supplier.push(POSITION, GPS, octets)
            with pytest.raises(ValueError, match="no value of Radar::Point"):
                consumer.next(timeout=30).value
        with pytest.raises(TypeError, match="encode: expected a class of an IDL file"):
            supplier.push(POSITION, GPS, object())


def test_values_have_octets(radar):
    plot = radar.Plot(1, "ü", radar.Point(1, 2), radar.search, b"x")
    assert isorb.decode(radar.Plot, isorb.encode(plot)) == plot
    # The other byte order.
    assert isorb.decode(radar.Point, bytes(8) + bytes([0x3F, 0xF0]) + bytes(6) + bytes(8)) == radar.Point(1.0, 0.0)
    with pytest.raises(ValueError, match="no value of Radar::Plot"):
        isorb.decode(radar.Plot, isorb.encode(plot)[:-1])


def test_a_recording_is_replayed(channel, radar, tmp_path):
    file = tmp_path / "flight.events"
    supplier = channel.supplier()
    with channel.record(file, type=POSITION) as recording:
        for n in range(10):
            supplier.push(POSITION, GPS, radar.Point(n, 0))
        until(lambda: recording.counts()["events"] == 10, "the recording")
    read = list(isorb.Events(file, payload=radar.Point))
    assert [event.value.x for event in read] == [float(n) for n in range(10)]
    assert all(0 <= a.at <= b.at for a, b in zip(read, read[1:]))
    with channel.consume(type=POSITION, payload=radar.Point) as consumer:
        assert isorb.replay(isorb.Events(file), supplier, speed=0) == 10
        assert [consumer.next(timeout=30).value.x for _ in range(10)] == [float(n) for n in range(10)]


def test_a_damaged_recording_says_so(channel, radar, tmp_path):
    file = tmp_path / "cut.events"
    with channel.record(file, type=POSITION) as recording:
        supplier = channel.supplier()
        for _ in range(3):
            supplier.push(POSITION, GPS, radar.Point(1, 0))
        until(lambda: recording.counts()["events"] == 3, "the recording")
    assert recording.stop()["events"] == 3
    events = isorb.Events(file)
    assert len(list(events)) == 3 and "whole" in events.damage
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 2] ^= 0xFF
    file.write_bytes(octets)
    events = isorb.Events(file)
    assert len(list(events)) < 3 and "damaged" in events.damage
    file.write_bytes(b"no recording")
    with pytest.raises(isorb.Error, match="no recording"):
        isorb.Events(file)
    with pytest.raises(isorb.Error, match="none.events"):
        isorb.Events(tmp_path / "none.events")


def test_no_channel_is_an_exception(orb):
    with pytest.raises(isorb.SystemException):
        isorb.EventChannel(orb, "corbaloc::127.0.0.1:1/EventService")
