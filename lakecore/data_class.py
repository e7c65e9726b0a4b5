"""This module makes data classes: `dataclass` makes the class that `dataclasses.dataclass` makes, sooner.

The standard one compiles the text of up to six methods of each class, which was a quarter of the CPU of a
command on a small table. Here the constructor alone is compiled, and the other methods are closures.
`fields`, `replace` and `asdict` of the standard module, copy and pickle treat both alike. Type checkers see
the standard one.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, slots=False, kw_only=False, **methods):
        """Return a data class as `dataclasses.dataclass` does, with its parameters `repr`, `eq`, `order`,
        `frozen`, `slots` and `kw_only`. Raises TypeError for a field that is an `InitVar`, for an order
        without `eq` and for other parameters, SyntaxError for a field without a default behind one that has
        one.

        A frozen class of the standard decorator cannot derive from one of this: use this for both.
        """
        chosen = {"repr": True, "eq": True, "order": False, "frozen": False}
        if strange := set(methods) - set(chosen):
            raise TypeError(f"dataclass has no parameter {strange.pop()}")
        chosen |= methods

        def decorate(undecorated):
            return _data_class_of(undecorated, chosen, slots=slots, kw_only=kw_only)

        return decorate if cls is None else decorate(cls)


_Method = Callable[..., Any]
_NOT_WRITTEN = ("__setattr__", "__delattr__", "__lt__", "__le__", "__gt__", "__ge__")
"""A class that gets one of these must not have its own."""


def _data_class_of(original: type, chosen: Mapping[str, bool], *, slots: bool, kw_only: bool) -> type:
    written = dict(vars(original))
    if not original.__doc__:
        original.__doc__ = original.__name__  # otherwise the signature is inspected for it
    cls: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(
        original
    )
    fields = dataclasses.fields(cls)
    _check(cls, chosen)
    methods = {"__init__": _initializer(cls, fields, frozen=chosen["frozen"], slots=slots)}
    methods |= _methods_of_values(fields, chosen)
    if chosen["frozen"]:
        methods |= _guards(cls, frozenset(one.name for one in fields))
    _set_methods(cls, methods, written)
    if chosen["frozen"] and slots:
        _set_missing(cls, {"__getstate__": _state, "__setstate__": _set_state}, written)
    if chosen["eq"] and not chosen["frozen"] and not _has_hash(written):
        setattr(cls, "__hash__", None)  # noqa: B010 - mypy takes an assignment for a mistake
    return cls


def _check(cls: type, chosen: Mapping[str, bool]) -> None:
    """Refuse what this decorator cannot make. Raises TypeError."""
    real = {one.name for one in dataclasses.fields(cls)}
    for name, one in vars(cls)["__dataclass_fields__"].items():
        if name not in real and "ClassVar" not in str(one.type):
            raise TypeError(f"{cls.__qualname__}.{name} is an InitVar: write a class method that takes it")
    if chosen["order"] and not chosen["eq"]:
        raise TypeError(f"{cls.__qualname__} has an order, so it needs eq")


def _methods_of_values(fields: Sequence[Field[Any]], chosen: Mapping[str, bool]) -> dict[str, _Method]:
    """Return the methods that read the values of fields."""
    methods: dict[str, _Method] = {}
    if chosen["repr"]:
        methods["__repr__"] = _representation([one.name for one in fields if one.repr])
    compared = _key([one.name for one in fields if one.compare])
    if chosen["eq"]:
        methods["__eq__"] = _equality(compared)
    if chosen["eq"] and chosen["frozen"]:
        in_hash = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
        methods["__hash__"] = _hash(_key(in_hash))
    if chosen["order"]:
        for name in ("lt", "le", "gt", "ge"):
            methods[f"__{name}__"] = _comparison(compared, getattr(operator, name))
    return methods


def _set_methods(cls: type, methods: Mapping[str, _Method], written: Mapping[str, Any]) -> None:
    """Set the methods that the author of the class has not written. Raises TypeError for one that nobody
    may write.
    """
    for name in _NOT_WRITTEN:
        if name in methods and name in written:
            raise TypeError(f"{cls.__qualname__} is frozen or has an order, so it cannot define {name}")
    for name, method in methods.items():
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
    if not _has_hash(written):
        written = {name: value for name, value in written.items() if name != "__hash__"}
    _set_missing(cls, methods, written)


def _set_missing(cls: type, methods: Mapping[str, _Method], written: Mapping[str, Any]) -> None:
    for name, method in methods.items():
        if name not in written:
            setattr(cls, name, method)


def _has_hash(written: Mapping[str, Any]) -> bool:
    """Return whether the author chose the hash. Python sets None where there is only `__eq__`."""
    return "__hash__" in written and not (written["__hash__"] is None and "__eq__" in written)


def _initializer(cls: type, fields: Sequence[Field[Any]], *, frozen: bool, slots: bool) -> _Method:
    """Compile the constructor."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    body = []
    for one in fields:
        value = _value_text(one, names, slots=slots)
        if value:
            body.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    init_fields = [one for one in fields if one.init]
    parameters = ["self", *(_parameter(one, names) for one in init_fields if not one.kw_only)]
    if by_name := [_parameter(one, names) for one in init_fields if one.kw_only]:
        parameters += ["*", *by_name]
    lines = [
        f"def _outer({', '.join(names)}):",
        f" def __init__({', '.join(parameters)}):",
        *(f"  {line}" for line in body or ["pass"]),
        " return __init__",
    ]
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)
    constructor: _Method = space["_outer"](**names)
    constructor.__annotations__ = {one.name: one.type for one in init_fields} | {"return": None}
    return constructor


def _value_text(field: Field[Any], names: dict[str, Any], *, slots: bool) -> str:
    """Return the text of the value that the constructor sets, or an empty text if it sets none."""
    name = field.name
    if field.default_factory is not MISSING:
        names[f"_make_{name}"] = field.default_factory
        return f"_make_{name}() if {name} is _missing else {name}" if field.init else f"_make_{name}()"
    if field.init:
        return name
    if slots and field.default is not MISSING:
        names[f"_default_{name}"] = field.default
        return f"_default_{name}"
    return ""


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=_missing"
    if field.default is MISSING:
        return field.name
    names[f"_default_{field.name}"] = field.default
    return f"{field.name}=_default_{field.name}"


def _key(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that returns the values of these fields as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    if not names:
        return lambda _: ()
    get = operator.attrgetter(names[0])
    return lambda one: (get(one),)


def _representation(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def represent(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return represent


def _equality(key: Callable[[Any], Any]) -> _Method:
    def equals(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return key(self) == key(other)
        return NotImplemented

    return equals


def _comparison(key: Callable[[Any], Any], compare: Callable[[Any, Any], Any]) -> _Method:
    def compare_values(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return compare(key(self), key(other))
        return NotImplemented

    return compare_values


def _hash(key: Callable[[Any], Any]) -> Callable[[Any], int]:
    def hash_of(self: Any) -> int:
        return hash(key(self))

    return hash_of


def _guards(cls: Any, names: frozenset[str]) -> dict[str, _Method]:
    """Return the methods that keep a frozen class as it is; a subclass may have more attributes."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}


def _state(self: Any) -> list[Any]:
    """Return the values of all fields: pickle cannot set them by name in a frozen class with slots."""
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
