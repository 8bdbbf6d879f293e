"""How the client compares and reports."""

import inspect
import struct
from collections import namedtuple

from omniORB import CORBA


FIXED = type(CORBA.fixed(1, 0, "0"))


class Failure(Exception):
    pass


class Skip(Exception):
    pass


class Run(namedtuple("Run", "orb root options suite case")):
    def group(self, interface, name=None):
        reference = self.suite.group(name or self.case)._narrow(interface)
        expect(reference is not None, "group is not of the interface")
        return reference


def expect(condition, text=""):
    if not condition:
        caller = inspect.stack()[1]
        raise Failure("%s (%s:%d)" % (text or caller.code_context[0].strip(), caller.filename.rsplit("/", 1)[-1], caller.lineno))


def expect_raise(exception, call, *args):
    """The exception that `call` must raise, for a look at its members."""
    try:
        call(*args)
    except exception as e:
        return e
    raise Failure("%s did not raise %s" % (getattr(call, "__name__", call), exception.__name__))


def plain(value):
    """A value as plain Python data in which equal means equal bit for bit."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, CORBA.Any):
        return [same_token(value.typecode(), lambda a, b: a.equal(b)), plain(value._v)]
    if isinstance(value, CORBA.TypeCode):
        return same_token(value, lambda a, b: a.equal(b))
    if isinstance(value, CORBA.Object):
        return same_token(value, lambda a, b: a._is_equivalent(b))
    if hasattr(value, "_d") and hasattr(value, "_v"):
        return [plain(value._d), plain(value._v)]
    if hasattr(value, "_parent_id"):  # an enumerator
        return str(value)
    if isinstance(value, (int, str, bool, type(None))):
        return value
    if isinstance(value, FIXED):
        return str(value)
    return [type(value).__name__, sorted((k, plain(v)) for k, v in vars(value).items())]


known = []


def same_token(value, equal):
    """Equal values get equal tokens: TypeCodes and references have no plain form."""
    for i, (kind, other) in enumerate(known):
        if kind is type(value) and equal(other, value):
            return "<%d>" % i
    known.append((type(value), value))
    return "<%d>" % (len(known) - 1)


def check_echo(target, operation, values):
    """The echo rule for all neighbours in a list of values."""
    for i, a in enumerate(values):
        old = values[(i + 1) % len(values)]
        result, inout, out = getattr(target, operation)(a, old)
        for what, got, want in (("result", result, a), ("inout", inout, a), ("out", out, old)):
            if plain(got) != plain(want):
                raise Failure("%s value %d: %s is %.120r instead of %.120r" % (operation, i, what, plain(got), plain(want)))
