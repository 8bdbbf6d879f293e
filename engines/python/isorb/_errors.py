"""Exceptions: of the ORB, of IDL files, and what a servant raised by mistake."""

import logging

from ._isorb import SYSTEM_EXCEPTIONS


class Error(Exception):
    """Something outside of a call failed: a file, an area, a channel. The text says what and why."""


class IdlError(Error):
    """An IDL file with errors. The text has each with its line, as a compiler prints it."""


class UserException(Exception):
    """Base of the exceptions of IDL files."""


class SystemException(Exception):
    """A system exception (CORBA 3.3 part 1, clause 4.12): a call failed for a reason of the ORB's.

    `minor` is the minor code and `completed` one of COMPLETED_YES, COMPLETED_NO and
    COMPLETED_MAYBE: whether the operation was executed. A servant raises one as
    `isorb.NO_PERMISSION("only the operator may fire")`.
    """

    name = "UNKNOWN"

    def __init__(self, detail="", minor=0, completed="COMPLETED_NO"):
        self.detail = detail
        self.minor = minor
        self.completed = completed
        super().__init__(detail, minor, completed)

    def __str__(self):
        tail = f": {self.detail}" if self.detail else ""
        return f"{self.name} (minor code {self.minor:#x}, {self.completed}){tail}"


_CLASSES = {
    name: type(
        name,
        (SystemException,),
        {"name": name, "__module__": "isorb", "__doc__": f"The system exception {name}."},
    )
    for name in SYSTEM_EXCEPTIONS
}
globals().update(_CLASSES)


def make(name, detail, minor, completed):
    """An instance of the class of a system exception."""
    return _CLASSES.get(name, SystemException)(detail, minor, completed)


def log_servant_error(operation, error):
    """Logs an exception that the operation does not list: the client gets UNKNOWN."""
    logging.getLogger("isorb").error(
        "%s: the servant raised an exception that the operation does not list; the client gets UNKNOWN",
        operation,
        exc_info=(type(error), error, error.__traceback__),
    )
