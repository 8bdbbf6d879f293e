import gc
import subprocess
import threading

import numpy
import pytest

import isorb
from conftest import until


@pytest.fixture(scope="module")
def memory(program, orb, tmp_path_factory):
    """A node's server as a process."""
    socket = tmp_path_factory.mktemp("node") / "socket"
    process = subprocess.Popen([program, "memory-server", "--name", "a", "--socket", socket], stdout=subprocess.DEVNULL)
    try:
        yield isorb.Memory(orb, socket, timeout=60)
    finally:
        process.kill()
        process.wait()


def test_a_value_is_read_in_place(memory):
    memory.create("plant/mib", 1 << 20, histories=2)
    writer, reader = memory.writer("plant/mib"), memory.reader("plant/mib")
    assert reader.latest() is None and not reader.has_new
    with pytest.raises(isorb.Error, match="plant/mib"):
        reader.lease()
    numbers = numpy.arange(1 << 17, dtype="f8")
    assert writer.write(numbers) == 1
    assert reader.wait(30)
    with reader.lease() as lease:
        array = lease.array("f8")
        assert array.nbytes == 1 << 20 and not array.flags.writeable and not array.flags.owndata
        assert array.__array_interface__["data"][0] == lease._lease.address
        assert (array == numbers).all() and lease.intact and lease.sequence == 1
    assert ("plant/mib", 1 << 20, 2) in memory.areas()
    assert reader.statistics()["values"] >= 1
    assert reader.state == "Open" and reader.size == 1 << 20


def test_an_array_sees_the_writer_and_the_lease_tells(memory):
    memory.create("plant/lapped", 8, histories=1)
    writer, reader = memory.writer("plant/lapped"), memory.reader("plant/lapped")
    writer.write(bytes(8))
    lease = reader.lease()
    array = lease.array("u8")
    for n in range(1, 3):
        writer.write(n.to_bytes(8, "little"))
        assert lease.intact and array[0] == 0
    writer.write((3).to_bytes(8, "little"))
    assert not lease.intact and array[0] == 3


def test_a_view_outlives_reader_and_lease(memory):
    memory.create("plant/kept", 8)
    memory.writer("plant/kept").write(b"12345678")
    view = memory.reader("plant/kept").lease().memory()
    gc.collect()
    assert bytes(view) == b"12345678"
    with pytest.raises(TypeError):
        view[0] = 1


def test_waiting_lets_other_threads_run(memory):
    memory.create("plant/late", 8)
    writer, reader = memory.writer("plant/late"), memory.reader("plant/late")
    assert not reader.wait(0.01)
    threading.Timer(0.1, lambda: writer.write(b"late")).start()
    assert reader.wait(30) and reader.latest() == b"late"
    with pytest.raises(ValueError, match="seconds"):
        reader.wait(float("nan"))


def test_an_interrupt_ends_waiting(memory, interrupted):
    memory.create("plant/never", 8)
    reader = memory.reader("plant/never")
    interrupted(lambda: reader.wait(50.0))


def test_wrong_values_and_names_are_errors(memory, orb, tmp_path):
    memory.create("plant/small", 4)
    writer = memory.writer("plant/small")
    with pytest.raises(isorb.Error, match="5"):
        writer.write(b"12345")
    with pytest.raises(TypeError, match="buffer protocol, not int 7"):
        writer.write(7)
    with pytest.raises(isorb.Error, match="plant/small"):
        memory.create("plant/small", 8)
    with pytest.raises(isorb.Error, match="none"):
        memory.reader("none", timeout=0)
    with pytest.raises(isorb.Error, match="writer"):
        memory.writer("plant/small")
    with pytest.raises(isorb.Error):
        isorb.Memory(orb, tmp_path / "no.socket", timeout=0)
    memory.destroy("plant/small")
    until(lambda: "plant/small" not in [name for name, *_ in memory.areas()], "the end of the area")
