"""A value of an area in place: as a memoryview, or as a NumPy array without a copy."""

import ctypes as _ctypes

from ._isorb import Reader as _Reader


class Lease:
    """The latest value of an area, without a copy.

    The writer does not wait: it returns to the buffer after histories + 1 more values. What was read
    in place counts only if `intact` is true afterwards. The memory stays mapped as long as a view of
    it lives.

        with reader.lease() as lease:
            mean = lease.array("f8").mean()
            if not lease.intact:
                ...  # the writer was faster: lease again
    """

    def __init__(self, lease):
        self._lease = lease

    sequence = property(lambda self: self._lease.sequence, doc="The number of the value, from 1.")
    epoch = property(lambda self: self._lease.epoch, doc="Which writer wrote it, from 1.")
    written_ns = property(lambda self: self._lease.written_ns, doc="When, on the monotonic clock.")
    intact = property(lambda self: self._lease.intact, doc="Whether the value is still whole.")

    def __len__(self):
        return len(self._lease)

    def memory(self):
        """The octets as a read-only memoryview. They may change under it: see `intact`."""
        if len(self._lease) == 0:
            return memoryview(b"")
        octets = type("_Octets", (_ctypes.c_ubyte * len(self._lease),), {}).from_address(self._lease.address)
        octets._lease = self._lease  # Keeps the memory mapped as long as a view of it lives.
        return memoryview(octets).cast("B").toreadonly()

    def array(self, dtype="u1"):
        """The octets as a read-only NumPy array of this type."""
        import numpy

        return numpy.frombuffer(self.memory(), dtype=dtype)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Reader:
    """A reader of an area; from `Memory.reader`."""

    def __init__(self, reader: _Reader):
        self._reader = reader

    name = property(lambda self: self._reader.name, doc="The area's name.")
    size = property(lambda self: self._reader.size, doc="Octets of the largest value.")
    state = property(lambda self: self._reader.state, doc="'Open', 'Stopped', 'WriterGone', 'Stale', ...")
    has_new = property(lambda self: self._reader.has_new, doc="Whether there is a value that was not read.")

    def latest(self):
        """A copy of the latest value as bytes, new or not; None before the first one."""
        return self._reader.latest()

    def lease(self):
        """The latest value in place. Raises isorb.Error before the first one."""
        return Lease(self._reader.lease())

    def wait(self, timeout=1.0):
        """Waits for a value that was not read; False when none came. `state` says whether any will."""
        return self._reader.wait(timeout)

    def statistics(self):
        """The server's counts as a dict."""
        return self._reader.statistics()
