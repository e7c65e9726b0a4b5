"""This module converts jobs to plain values of JSON and back, with the names of their fields as keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_origin, get_type_hints

from lakecore.errors import InvalidInputError

__all__ = ["from_json", "to_json"]

J = TypeVar("J")


def to_json(job: Any) -> dict[str, Any]:
    """Convert a frozen job to plain values."""
    return {field.name: _plain(getattr(job, field.name)) for field in fields(job)}


def from_json(kind: type[J], raw: Mapping[str, Any]) -> J:
    """Parse a job. Raises InvalidInputError for unknown or missing keys and for values of a wrong type."""
    try:
        types = get_type_hints(kind)
        return kind(**{name: _convert(types.get(name), value) for name, value in raw.items()})
    except (TypeError, ValueError) as err:
        raise InvalidInputError(f"not a {getattr(kind, 'command', '') or kind.__name__} job: {err}") from err


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return to_json(value) if is_dataclass(value) else value


def _convert(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
        return kind(**value)
    return tuple(value) if get_origin(kind) is tuple and isinstance(value, list) else value
