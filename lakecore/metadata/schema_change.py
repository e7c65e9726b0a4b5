"""This module has the changes of a schema as values: the requests of ALTER. The rules are in
`catalog/alter.py`. It does no IO.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from lakecore.data_class import dataclass
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
"""The names from the column inwards; the parts of an array and a map are called `element` and `value`."""


class Place(Enum):
    """This is the place to which a column is moved."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """This is the position of a column among its siblings. `reference` names the sibling for AFTER and
    BEFORE.
    """

    place: Place
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set an option of the table."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetOption:
    """Remove an option of the table."""

    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """Set the comment of the table; None removes it."""

    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Add a nullable column, because existing rows have no value for it. `position` None appends it."""

    path: FieldPath
    type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column."""

    path: FieldPath


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column, and the options that name it."""

    path: FieldPath
    name: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Change the type of a column. `keep_nullability` ignores the nullability of `type`."""

    path: FieldPath
    type: DataType
    keep_nullability: bool = True


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    """Change whether a column may be null."""

    path: FieldPath
    nullable: bool


@dataclass(frozen=True, slots=True)
class ChangeComment:
    """Set the comment of a column; None removes it."""

    path: FieldPath
    comment: str | None


@dataclass(frozen=True, slots=True)
class ChangeDefault:
    """Set the value, as text, that writers store if a row has none; None removes it."""

    path: FieldPath
    value: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a top-level column."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Drop the primary key; allowed only while the table has no snapshot."""


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
