"""This module has the declaration of a job's parameters, from which their forms for all users follow.

A field of a job whose type is `Annotated[T, Parameter("help text")]` is a parameter:

    class ExpireSnapshots(TableJob):
        older_than_ms: Annotated[int | None, Parameter("Date and time …", Kind.MOMENT)] = None

| form | name | made in |
|---|---|---|
| parameter of the operator | `older_than`: `name`, or the field without unit | `lakecore_airflow.tasks.job` |
| option of the command | `--older-than`: this name with dashes, or `flags` | `lakecore/cli/job_options.py` |
| key of a policy | `older-than` or `older_than` | `lakecore_airflow.policy.maintain` |
| key of JSON | `older_than_ms`: the field | `json_form.py` |

The kind of a parameter follows from its type; only a moment, a duration, an end and a size, which are whole
numbers in the job, are named. A field without a `Parameter` belongs to the run and not to the request (the
name of the commit, the owner of the lease): it has a key in JSON only. Default values are those of the
fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from lakecore.data_class import dataclass

__all__ = ["DeclaredParameter", "Kind", "Parameter", "declared", "parameters_by_name"]

_UNITS = ("_ms", "_bytes")


class Kind(Enum):
    """This enum says how users write the value of a parameter."""

    TEXT = "text"
    NUMBER = "whole number"
    SHARE = "number"
    FLAG = "true or false"
    NO_FLAG = "true or false; the field has the opposite"
    CHOICE = "one of a few words"
    NAMES = "names, split by commas"
    OPTIONS = "key=value"
    MOMENT = "date and time, or milliseconds since 1970"
    DURATION = "duration: 10 min"
    END = "date and time, or HH:MM for the next such time"
    SIZE = "size: 512 mb; none for no limit"
    VALUE = "a value of JSON"


@dataclass(frozen=True, slots=True)
class Parameter:
    """This description says what the type of a field cannot say about a parameter."""

    help: str
    """It has one or two sentences for users."""
    kind: Kind | None = None
    """None: follows from the type of the field."""
    name: str = ""
    """This is the name for users; if it is empty, it is the field's without its unit (`_ms`, `_bytes`)."""
    flags: tuple[str, ...] = ()
    """These are the options of the command; if it is empty, the option is the name with dashes."""
    default_text: str = ""
    """This is the default as users write it, where the field has a number for it. It may differ from the
    field's default: then it is what commands and operators use where nothing is given.
    """
    choices: type[Enum] | None = None
    """The words that a text may be; a field whose type is an Enum needs none."""
    on_command: bool = True
    """True: the option of the command follows. False: the command declares what stands for it."""
    on_operator: bool = True
    """True: operators and policies take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredParameter:
    """This is a parameter of a job, with all that follows from its field."""

    field: str
    type: Any
    """This is the type of the field, without the annotation."""
    default: Any
    """This is the default of the field; MISSING for a parameter that must be given."""
    kind: Kind
    parameter: Parameter

    @property
    def name(self) -> str:
        """Return the name that operators and policies use."""
        return self.parameter.name or without_unit(self.field)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the options of the command."""
        return self.parameter.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def choices(self) -> type[Enum] | None:
        """Return the words that the value may be."""
        return self.parameter.choices or (self.type if _is_enum(self.type) else None)

    @property
    def optional(self) -> bool:
        """Return whether the field may be None."""
        return NoneType in get_args(self.type)

    @property
    def user_default(self) -> Any:
        """Return the default as users write it; None where nothing is given, MISSING for a required
        parameter.
        """
        if self.parameter.default_text:
            return self.parameter.default_text
        if isinstance(self.default, Enum):
            return self.default.value
        if self.kind is Kind.NO_FLAG:
            return not self.default
        return None if isinstance(self.default, tuple | Mapping) else self.default


def without_unit(field: str) -> str:
    """Return the name of a field without `_ms` or `_bytes`, which users write with the value."""
    return next((field.removesuffix(unit) for unit in _UNITS if field.endswith(unit)), field)


@cache
def declared(job: type) -> tuple[DeclaredParameter, ...]:
    """Return the parameters of a job: those of its own class first, then those that it has from its bases."""
    hints = get_type_hints(job, include_extras=True)
    by_name = {field.name: field for field in fields(job)}
    values = []
    for name in dict.fromkeys(
        name for owner in job.__mro__ for name in vars(owner).get("__annotations__", ())
    ):
        parameter = _parameter(hints.get(name))
        if name in by_name and parameter is not None:
            type_ = get_args(hints[name])[0]
            field = by_name[name]
            default = field.default if field.default_factory is MISSING else field.default_factory()
            kind = parameter.kind or _kind(type_, parameter)
            values.append(
                DeclaredParameter(field=name, type=type_, default=default, kind=kind, parameter=parameter)
            )
    return tuple(values)


def parameters_by_name(job: type) -> dict[str, DeclaredParameter]:
    """Return the parameters that operators and policies take, by the names that they use."""
    return {one.name: one for one in declared(job) if one.parameter.on_operator}


def _parameter(hint: Any) -> Parameter | None:
    if get_origin(hint) is not Annotated:
        return None
    return next((one for one in get_args(hint)[1:] if isinstance(one, Parameter)), None)


def _kind(type_: Any, parameter: Parameter) -> Kind:
    plain = _without_none(type_)
    if parameter.choices is not None or _is_enum(plain):
        return Kind.CHOICE
    if get_origin(plain) is tuple:
        return Kind.NAMES
    if isinstance(get_origin(plain), type) and issubclass(get_origin(plain), Mapping):
        return Kind.OPTIONS
    return {bool: Kind.FLAG, int: Kind.NUMBER, float: Kind.SHARE}.get(plain, Kind.TEXT)


def _without_none(type_: Any) -> Any:
    if get_origin(type_) not in (Union, UnionType):
        return type_
    some = [one for one in get_args(type_) if one is not NoneType]
    return some[0] if len(some) == 1 else type_


def _is_enum(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Enum)
