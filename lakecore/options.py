"""This module declares what an option is, and parses sizes, durations and booleans. Options live where
they are obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Generic, TypeVar

from lakecore.data_class import dataclass
from lakecore.errors import MASK, InvalidOptionError, is_secret

__all__ = [
    "Option",
    "option_texts",
    "parse_bool",
    "parse_duration_ms",
    "parse_enum",
    "parse_list",
    "parse_size",
]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

_SIZE_UNITS = {
    "": 1, "b": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kibibytes": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mebibytes": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gibibytes": 1 << 30,
    "t": 1 << 40, "tb": 1 << 40, "tebibytes": 1 << 40,
}  # fmt: skip
_DAY = 86_400_000
_DURATION_UNITS = {
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": _DAY, "day": _DAY, "days": _DAY,
}  # fmt: skip
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def _number_and_unit(text: str, units: Mapping[str, int], what: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].lower() not in units:
        raise ValueError(f"this is not a {what}; write for example {'8 mb' if what == 'size' else '1 h'!r}")
    return int(match[1]) * units[match[2].lower()]


def parse_size(text: str) -> int:
    """Parse `8 mb` into bytes (units are powers of 1024)."""
    return _number_and_unit(text, _SIZE_UNITS, "size")


def parse_duration_ms(text: str) -> int:
    """Parse `1 h`, `30 s`, `500` (ms) or ISO-8601 (`PT1H`) into milliseconds."""
    match = _ISO.fullmatch(text.strip().upper())
    if match and any(match.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return int(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)
    return _number_and_unit(text, _DURATION_UNITS, "duration")


def parse_bool(text: str) -> bool:
    """Parse `true` or `false`, in any case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("it must be true or false")
    return value


def parse_list(text: str) -> tuple[str, ...]:
    """Parse `a, b` into ("a", "b"), and empty text into ()."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_enum(kind: type[E]) -> Callable[[str], E]:
    """Return a parser for the values of `kind`, case-insensitive, without other normalisation."""

    def parse(text: str) -> E:
        for member in kind:
            if str(member.value).lower() == text.strip().lower():
                return member
        raise ValueError("it must be one of " + ", ".join(str(member.value) for member in kind))

    return parse


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Return options as the texts that schemas store: a boolean is `true` or `false`.

    Raises InvalidOptionError for a value that is neither text nor number nor boolean, and for what is no
    mapping.
    """
    if not isinstance(options, Mapping):
        raise InvalidOptionError(f"options {options!r}: write a mapping of option to value")
    for key, value in options.items():
        if not isinstance(value, str | int | float):
            raise InvalidOptionError(
                f"option {key}={value!r}: a value is a text, a number or a boolean; leave the option out to "
                "have its default"
            )
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
    }


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """This is one table option: its key, how its text is parsed and what holds when it is absent."""

    key: str
    parse: Callable[[str], T]
    default: T
    doc: str
    old_keys: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key, followed by its old names."""
        return (self.key, *self.old_keys)

    def read(self, raw: Mapping[str, str]) -> T:
        """Return the typed value in `raw`, or the default. Raises InvalidOptionError naming key and value."""
        for key in self.keys:
            if key in raw:
                try:
                    return self.parse(raw[key])
                except ValueError as err:
                    problem = "it is not a whole number" if self.parse is int else str(err)
                    value = MASK if is_secret(key) else repr(raw[key])
                    raise InvalidOptionError(f"option {key}={value}: {problem}") from err
        return self.default
