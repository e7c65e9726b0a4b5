"""This module parses values of parameters as users write them: on the command line, as rendered templates,
in policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any, TypeVar

from lakecore.errors import InvalidInputError
from lakecore.jobs.definitions.parameter import DeclaredParameter, Kind, declared
from lakecore.jobs.definitions.table_job import Definition
from lakecore.options import parse_bool, parse_size

__all__ = ["fields_of", "is_given", "new_job", "parse_flag", "parse_value"]

D = TypeVar("D", bound=Definition)


def is_given(value: Any) -> bool:
    """Return whether a rendered template has a value. An empty text means that nothing was given."""
    return not (value is None or (isinstance(value, str) and value.strip() in ("", "None")))


def parse_value(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> Any:
    """Convert a value to that of the job's field. `label` names the parameter in errors; `now_ms` is the
    time that `HH:MM` follows. Raises InvalidInputError.
    """
    return _PARSERS[one.kind](one, value, label, now_ms)


def parse_flag(label: str, value: Any) -> bool:
    """Parse a boolean, or its text. Raises InvalidInputError naming `label`."""
    if isinstance(value, bool):
        return value
    try:
        return parse_bool(str(value).strip())
    except ValueError as err:
        raise InvalidInputError(f"{label}={value!r}: use true or false") from err


def _text(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> str:
    return str(value)


def _number(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> int:
    try:
        return int(value)
    except ValueError as err:
        raise InvalidInputError(f"{label}={value!r}: use a whole number") from err


def _share(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> float:
    try:
        return float(value)
    except ValueError as err:
        raise InvalidInputError(f"{label}={value!r}: use a number such as 0.5") from err


def _flag(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> bool:
    return parse_flag(label, value)


def _no_flag(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> bool:
    return not parse_flag(label, value)


def _choice(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> Any:
    kind = one.choices
    if kind is None or isinstance(value, kind):
        return value if kind is one.type else value.value
    try:
        choice = kind(value)
    except ValueError as err:
        words = ", ".join(str(member.value) for member in kind)
        raise InvalidInputError(f"{label}={value!r}: use one of {words}") from err
    return choice if kind is one.type else choice.value


def _names(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else map(str, value)
    return tuple(filter(None, map(str.strip, parts)))


def _options(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> dict[str, str]:
    return dict(value) if isinstance(value, Mapping) else _key_values(value, label)


def _key_values(pairs: Any, label: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for pair in [pairs] if isinstance(pairs, str) else pairs:
        key, equals, value = str(pair).partition("=")
        if not equals or not key.strip():
            raise InvalidInputError(f"{label} {pair!r}: write key=value")
        result[key.strip()] = value.strip()
    return result


def _moment(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> int:
    from lakecore.jobs.runner.moment import parse_moment  # the libraries for times take long to import

    return parse_moment(str(value), label)


def _duration(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> int:
    from lakecore.jobs.runner.moment import parse_span

    return parse_span(str(value), label)


def _end(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> int:
    from lakecore.jobs.runner.until import parse_until

    return parse_until(str(value), now_ms)


def _size(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> int | None:
    text = str(value).strip()
    if one.optional and text.lower() == "none":
        return None
    try:
        return parse_size(text)
    except ValueError as err:
        raise InvalidInputError(f"{label} {value!r}: {err}") from err


def _value(one: DeclaredParameter, value: Any, label: str, now_ms: int) -> Any:
    return value


_PARSERS: Mapping[Kind, Callable[[DeclaredParameter, Any, str, int], Any]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
    Kind.SHARE: _share,
    Kind.FLAG: _flag,
    Kind.NO_FLAG: _no_flag,
    Kind.CHOICE: _choice,
    Kind.NAMES: _names,
    Kind.OPTIONS: _options,
    Kind.MOMENT: _moment,
    Kind.DURATION: _duration,
    Kind.END: _end,
    Kind.SIZE: _size,
    Kind.VALUE: _value,
}


def fields_of(job: type, parameters: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Convert parameters by the names of operators to the fields of a job; what is not given is left out.
    Raises InvalidInputError.
    """
    values = {}
    for one in declared(job):
        value = parameters.get(one.name) if one.parameter.on_operator else one.parameter.default_text
        if is_given(value):
            values[one.field] = parse_value(one, value, one.name, now_ms)
    return values


def new_job(job: type[D], values: Mapping[str, Any]) -> D:
    """Return the job with the fields. Raises InvalidInputError for a parameter that is missing."""
    kind: type = job
    missing = [one.name for one in declared(kind) if one.default is MISSING and one.field not in values]
    if missing:
        raise InvalidInputError(f"{job.command} needs {', '.join(missing)}")
    return job(**values)
