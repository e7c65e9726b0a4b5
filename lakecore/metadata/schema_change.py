"""Changes of a schema as values: what ALTER is asked to do. Rules are in `catalog/alter.py`. No IO."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from lakecore.types.datatypes import DataType

__all__ = [
    "AddColumn",
    "ChangeComment",
    "ChangeDefault",
    "ChangeNullability",
    "ChangeType",
    "DropColumn",
    "DropPrimaryKey",
    "FieldPath",
    "MoveColumn",
    "Place",
    "Position",
    "RenameColumn",
    "SchemaChange",
    "SetOption",
    "SetTableComment",
    "UnsetOption",
]

FieldPath: TypeAlias = tuple[str, ...]
"""Names from the column inwards; the parts of an array and a map are called `element` and `value`."""


class Place(Enum):
    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a column goes among its siblings. `reference`: the sibling for AFTER and BEFORE."""

    place: Place
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetOption:
    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """None removes the comment."""

    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Nullable only: rows that are there have no value. `position` None: at the end."""

    path: FieldPath
    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    path: FieldPath


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Options that name the column follow it."""

    path: FieldPath
    name: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """`keep_nullability`: that of `type` is ignored."""

    path: FieldPath
    type: DataType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    path: FieldPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class ChangeComment:
    """None removes the comment."""

    path: FieldPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class ChangeDefault:
    """The value that writers put where a row has none, as text; None removes it."""

    path: FieldPath
    value: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Of the table's own columns only."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Only while the table has no snapshot."""


SchemaChange: TypeAlias = (
    SetOption
    | UnsetOption
    | SetTableComment
    | AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | ChangeNullability
    | ChangeComment
    | ChangeDefault
    | MoveColumn
    | DropPrimaryKey
)
