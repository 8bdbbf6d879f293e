"""Makes the classes of an IDL file. The native part calls these functions, bases first."""

import enum as _enum
import types as _types

from ._aio import start as _start
from ._errors import UserException
from ._isorb import Object


class Module(_types.ModuleType):
    """A module of IDL, or a whole file."""

    def __repr__(self):
        return f"<IDL {self.__name__}>"


def module(name, full):
    return Module(full.replace("::", ".") or name, f"The IDL module {full}." if full else f"The IDL file {name}.")


def _dress(cls, full, doc, handle):
    parent = full.rpartition("::")[0].replace("::", ".")
    cls.__module__ = parent or "isorb.idl"
    cls.__doc__ = doc or f"The IDL type {full}."
    if handle is not None:
        cls.__isorb__ = handle
    return cls


# The instance in functions that are made: a name that no member or parameter of IDL has.
_SELF = "__self"


def _initializer(names, full, before=""):
    """`__init__` with the members as parameters: a missing one is an error that names it."""
    lines = "".join(f"    {_SELF}.{name} = {name}\n" for name in names) or "    pass\n"
    parameters = "".join(f", {name}" for name in names)
    space = {"_Exception": Exception}
    exec(f"def __init__({_SELF}{parameters}):\n{before}{lines}", space)
    space["__init__"].__qualname__ = f"{full.rpartition('::')[2]}.__init__"
    return space["__init__"]


def _members(self):
    return tuple(getattr(self, name) for name in self.__match_args__)


def _equal(self, other):
    return _members(self) == _members(other) if type(other) is type(self) else NotImplemented


def _shown(self):
    inside = ", ".join(f"{name}={getattr(self, name, '?')!r}" for name in self.__match_args__)
    return f"{type(self).__name__}({inside})"


def _reduce(self):
    raise TypeError(f"{type(self).__name__} cannot be pickled: its class was made from an IDL file at run time")


def struct(name, full, names, doc, handle):
    body = {
        "__slots__": (*names, "__weakref__"),
        "__match_args__": tuple(names),
        "__init__": _initializer(names, full),
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": _shown,
        "__reduce__": _reduce,
    }
    return _dress(type(name, (), body), full, doc, handle)


def exception(name, full, names, doc, handle):
    given = "".join(f"{member}, " for member in names)
    before = f"    _Exception.__init__({_SELF}, {given})\n"
    body = {
        "__match_args__": tuple(names),
        "__init__": _initializer(names, full, before),
        "__eq__": _equal,
        "__hash__": UserException.__hash__,
        "__repr__": _shown,
        "__str__": _shown,
    }
    return _dress(type(name, (UserException,), body), full, doc, handle)


def enum(name, full, names, doc, handle):
    made = _enum.IntEnum(name, {member: at for at, member in enumerate(names)})
    return _dress(made, full, doc, handle)


def union(name, full, cases, doc, handle):
    """A union: `U(discriminator, value)`, or `U(member=value)`. `_d` and `_v` are its parts."""
    by_name = {member: (labels, default) for member, labels, default in cases}
    by_label = {label: member for member, labels, _ in cases for label in labels}
    default_member = next((member for member, _, default in cases if default), None)

    def __init__(self, /, _d=None, _v=None, **member):
        if not member:
            self._d, self._v = _d, _v
            return
        if len(member) != 1 or _d is not None:
            raise TypeError(f"{name}: give a discriminator and a value, or one member by its name")
        (chosen, value), = member.items()
        if chosen not in by_name:
            raise TypeError(f"{name} has no member {chosen}; it has {', '.join(by_name)}")
        labels, _ = by_name[chosen]
        if not labels:
            raise TypeError(f"{name}: {chosen} needs a discriminator: give {name}(discriminator, value)")
        self._d, self._v = labels[0], value

    def __eq__(self, other):
        return (self._d, self._v) == (other._d, other._v) if type(other) is type(self) else NotImplemented

    def chosen(self):
        try:
            return by_label.get(self._d, default_member)
        except TypeError:
            return None

    body = {
        "__slots__": ("_d", "_v", "__weakref__"),
        "__init__": __init__,
        "__eq__": __eq__,
        "__hash__": None,
        "__repr__": lambda self: f"{name}({self._d!r}, {self._v!r})",
        "__reduce__": _reduce,
    }
    for member in by_name:

        def read(self, member=member):
            if chosen(self) != member:
                raise AttributeError(f"{name} holds {chosen(self)}, not {member}: its discriminator is {self._d!r}")
            return self._v

        body[member] = property(read)
    return _dress(type(name, (), body), full, doc, handle)


def interface(name, full, bases, doc, handle):
    # A base that another base derives from would make the order of methods impossible.
    bases = tuple(base for base in bases if not any(other is not base and issubclass(other, base) for other in bases))
    return _dress(type(name, bases or (Object,), {"__slots__": ()}), full, doc, handle)


def method(cls, name, parameters, operation, doc):
    """Gives a class the method of an operation, and the one that is awaited."""
    inside = "".join(f", {parameter}" for parameter in parameters)
    given = "".join(f"{parameter}, " for parameter in parameters)
    space = {"_operation": operation, "_start": _start}
    exec(
        f"def call({_SELF}{inside}):\n    return _operation({_SELF}, ({given}))\n"
        + f"def begin({_SELF}{inside}):\n    return _start(_operation, {_SELF}, ({given}))\n",
        space,
    )
    for made, own in ((space["call"], name), (space["begin"], f"{name}_async")):
        if own.endswith("_async") and own in vars(cls):
            continue
        made.__name__ = own
        made.__qualname__ = f"{cls.__name__}.{own}"
        made.__module__ = cls.__module__
        made.__doc__ = doc or f"The operation {operation.name}."
        setattr(cls, own, made)


def attribute(cls, name, wire, readonly, doc):
    read = vars(cls)[f"_get_{wire}"]
    write = None if readonly else vars(cls)[f"_set_{wire}"]
    setattr(cls, name, property(read, write, doc=doc or f"The attribute {wire}."))
