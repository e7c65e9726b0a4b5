"""This module parses changes of a schema as people write them: JSON, and short texts such as `name TYPE after
x`. No IO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from lakecore.catalog.column_text import parse_column, parse_type_text
from lakecore.errors import InvalidInputError
from lakecore.metadata.schema_change import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropColumn,
    DropPrimaryKey,
    FieldPath,
    MoveColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    SetTableComment,
    UnsetOption,
)
from lakecore.options import option_texts
from lakecore.types.datatypes import DataType, parse_type

__all__ = [
    "changes_from_json",
    "changes_of",
    "parse_add",
    "parse_move",
    "parse_pair",
    "parse_path",
    "parse_type_change",
]

_EXAMPLE = 'write a list such as [{"op": "add", "name": "c", "type": "INT"}]'

_POSITION = re.compile(r"(.*?)\s+(?:(first|last)|(after|before)\s+(\S+))\s*", re.IGNORECASE | re.DOTALL)
_PART = re.compile(r"`([^`]+)`|([^.`]+)")


def parse_path(text: str) -> FieldPath:
    """Parse `a`, `a.b`, or with backticks where a name has a dot: `` `a.b`.c ``."""
    parts = [match[1] or match[2] for match in _PART.finditer(text.strip())]
    if not parts:
        raise InvalidInputError(f"column {text!r}: write its name")
    return tuple(parts)


def parse_pair(text: str, what: str) -> tuple[str, str]:
    """Parse `key=value`. `what` names the flag in the error."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidInputError(f"{what} {text!r}: write NAME=VALUE")
    return key.strip(), value


def parse_add(text: str) -> AddColumn:
    """Parse `name TYPE` and a position: `first`, `last`, `after x`, `before x`."""
    column, position = _with_position(text)
    name, kind = parse_column(column)
    return AddColumn(path=parse_path(name), type=kind, position=position)


def parse_type_change(text: str) -> ChangeType:
    """Parse `name TYPE`. Nullability stays as it is."""
    name, kind = parse_column(text)
    return ChangeType(parse_path(name), kind)


def parse_move(text: str) -> MoveColumn:
    """Parse `name first`, `name last`, `name after x`, `name before x`."""
    name, position = _with_position(text)
    if position is None:
        raise InvalidInputError(f"move {text!r}: write NAME first, NAME last, NAME after x or NAME before x")
    return MoveColumn(name.strip("`"), position)


def changes_of(
    changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]],
) -> tuple[SchemaChange, ...]:
    """Parse changes, of which some may still be JSON. Raises InvalidInputError naming what is no change."""
    if isinstance(changes, Mapping) or not isinstance(changes, Sequence):
        changes = (changes,)
    if isinstance(changes, str):
        raise InvalidInputError(f"changes {changes!r}: {_EXAMPLE}")
    parsed: list[SchemaChange] = []
    for item in changes:
        if not isinstance(item, (Mapping, *get_args(SchemaChange))):
            raise InvalidInputError(f"change {item!r}: {_EXAMPLE}")
        parsed += changes_from_json(item) if isinstance(item, Mapping) else (item,)
    return tuple(parsed)


def changes_from_json(raw: Any) -> tuple[SchemaChange, ...]:
    """Parse a list of `{"op": …}`: add, drop, rename, type, nullability, move, set, unset, comment, default,
    table-comment, drop-primary-key. `name` is a column, or a list of names into nested types.

    Raises InvalidInputError naming the invalid change.
    """
    items = [raw] if isinstance(raw, Mapping) else raw
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InvalidInputError(f"changes: {_EXAMPLE}")
    return tuple(_change(item) for item in items)


def _change(raw: Any) -> SchemaChange:
    try:
        return _of(str(raw["op"]), raw)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise InvalidInputError(f"change {str(raw)[:200]}: {err!r} is missing or malformed") from err


def _of(op: str, raw: Mapping[str, Any]) -> SchemaChange:  # noqa: C901 - one line an operation
    match op:
        case "set":
            ((key, value),) = option_texts({raw["key"]: raw["value"]}).items()
            return SetOption(key, value)
        case "unset":
            return UnsetOption(str(raw["key"]))
        case "table-comment":
            return SetTableComment(raw.get("comment"))
        case "drop-primary-key":
            return DropPrimaryKey()
        case "add":
            return AddColumn(
                path=_path(raw), type=_type(raw), comment=raw.get("comment"), position=_position(raw)
            )
        case "drop":
            return DropColumn(_path(raw))
        case "rename":
            return RenameColumn(_path(raw), str(raw["to"]))
        case "type":
            return ChangeType(_path(raw), _type(raw), keep_nullability=bool(raw.get("keepNullability", True)))
        case "nullability":
            return ChangeNullability(_path(raw), _boolean(raw["nullable"]))
        case "comment":
            return ChangeComment(_path(raw), raw.get("comment"))
        case "default":
            return ChangeDefault(_path(raw), raw.get("value"))
        case "move":
            position = _position(raw)
            if position is None:
                raise KeyError("first")
            return MoveColumn(str(raw["name"]), position)
    raise InvalidInputError(f"change {op!r}: this change does not exist")


def _path(raw: Mapping[str, Any]) -> FieldPath:
    name = raw["name"]
    parts = tuple(name) if isinstance(name, list) else (str(name),)
    if not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(name)
    return parts


def _type(raw: Mapping[str, Any]) -> DataType:
    kind = raw["type"]
    return parse_type_text(kind) if isinstance(kind, str) else parse_type(kind)


def _position(raw: Mapping[str, Any]) -> Position | None:
    for place in Place:
        if place.value in raw:
            paired = place in (Place.AFTER, Place.BEFORE)
            return Position(place, str(raw[place.value]) if paired else None)
    return None


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _with_position(text: str) -> tuple[str, Position | None]:
    match = _POSITION.fullmatch(text.strip())
    if match is None:
        return text.strip(), None
    if match[2]:
        return match[1], Position(Place(match[2].lower()))
    return match[1], Position(Place(match[3].lower()), match[4].strip("`"))
