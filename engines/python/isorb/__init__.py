"""isorb for Python: call, serve and look into CORBA systems.

    radar = isorb.idl("radar.idl")
    with isorb.Orb() as orb:
        print(orb.object("corbaloc::localhost:2809/Radar", radar.Radar).sweep(3))

An IDL file is compiled when the program loads it, and gives classes at once. Other threads of
Python run while a call waits.
"""

import atexit as _atexit

from . import _errors
from ._errors import Error, IdlError, SystemException, UserException
from ._isorb import Any, Consumer, Event, EventChannel, Events, Object, Orb, Recording, Supplier, Task, TypeCode, Writer
from ._isorb import Memory as _Memory, decode, encode
from ._isorb import load as _load, load_text as _load_text, shutdown_all as _shutdown_all
from ._memory import Lease, Reader
from ._schedule import Plot, Schedule

for _name in _errors.SYSTEM_EXCEPTIONS:
    globals()[_name] = getattr(_errors, _name)

# Threads of the ORB may wait for the interpreter, which must not end before them.
_atexit.register(_shutdown_all)


def idl(file, include=(), defines=None):
    """Compiles an IDL file and gives an object with its modules, classes and constants.

    `include` has the folders of `#include`, `defines` macros by name. The standard files
    (`CosNaming.idl`, `orb.idl`, ...) are always found. Raises IdlError with all errors and lines.
    """
    import os

    return _load(os.fspath(file), [os.fspath(folder) for folder in include], dict(defines or {}))


def idl_text(text, name="text.idl"):
    """As `idl`, from a text."""
    return _load_text(text, name)


class Memory:
    """The session of this process with its node's server of reflective memory.

    `socket` is the file of the server (`isorb memory-server --socket`). Waits for it up to `timeout`
    seconds.
    """

    def __init__(self, orb, socket, timeout=5.0):
        self._memory = _Memory(orb, socket, timeout)

    def areas(self):
        """The areas of this node as tuples: name, octets of the largest value, histories."""
        return self._memory.areas()

    def create(self, name, size, histories=2):
        """Makes an area for values of at most `size` octets, which keeps `histories` beside the latest."""
        self._memory.create(name, size, histories)

    def destroy(self, name):
        """Ends an area. Its readers keep the last value."""
        self._memory.destroy(name)

    def writer(self, name, period=0.0):
        """Becomes the writer of an area of this node."""
        return self._memory.writer(name, period)

    def reader(self, name, deadline=0.0, timeout=5.0):
        """Becomes a reader of an area of any node."""
        return Reader(self._memory.reader(name, deadline, timeout))


def replay(events, supplier, speed=1.0):
    """Pushes the events of a recording at the times of the recording, `speed` times as fast.

    0 pushes them without pauses. Returns how many were pushed.
    """
    import time

    if speed < 0:
        raise ValueError(f"replay: expected a speed of 0 or more, not {speed}")
    begun, first, count = time.monotonic(), None, 0
    for event in events:
        if speed and event.at is not None:
            first = event.at if first is None else first
            pause = (event.at - first) / speed - (time.monotonic() - begun)
            if pause > 0:
                time.sleep(pause)
        supplier.push_event(event)
        count += 1
    return count


__all__ = ["Any", "Error", "IdlError", "Object", "Orb", "SystemException", "TypeCode", "UserException", "idl"]
__all__ += ["Consumer", "Event", "EventChannel", "Events", "Lease", "Memory", "Plot", "Reader", "Recording"]
__all__ += ["Schedule", "Supplier", "Task", "Writer", "decode", "encode", "replay"]
__all__ += ["idl_text", *_errors.SYSTEM_EXCEPTIONS]
__version__ = "0.2.0"
