"""This module defines the data types of the table format as frozen values, and their JSON (`schema-N` files).
No IO, no Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final, TypeAlias

from lakecore.data_class import dataclass

__all__ = [
    "INTEGER_BITS",
    "MAX_LENGTH",
    "ArrayType",
    "AtomicType",
    "DataField",
    "DataType",
    "MapType",
    "MultisetType",
    "RowType",
    "TypeRoot",
    "VectorType",
    "parse_type",
    "type_to_json",
    "with_nullable",
]

MAX_LENGTH = 2147483647


class TypeRoot(Enum):
    """This is the name that an atomic type has without its parameters."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    VARIANT = "VARIANT"
    BLOB = "BLOB"


INTEGER_BITS: Final = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
"""These are the integers and their widths in bits."""


@dataclass(frozen=True, slots=True)
class AtomicType:
    """This type has no parts. CHAR, VARCHAR and BINARY types have a `length`; DECIMAL, TIME and TIMESTAMP
    have a `precision`.
    """

    root: TypeRoot
    length: int = 0
    precision: int = 0
    scale: int = 0
    nullable: bool = True

    def __str__(self) -> str:
        return _atomic_text(self) + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType:
    """A value of this type maps each element to its count."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class VectorType:
    """The values of this type have a fixed number of primitive elements (since Paimon 1.4)."""

    element: DataType
    length: int
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class DataField:
    """This is a named column or nested field. Ids are never reused: evolution maps by id, not by name."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> DataField:
        """Parse a field. Raises ValueError, KeyError or TypeError on malformed input."""
        return cls(
            int(raw["id"]),
            str(raw["name"]),
            parse_type(raw["type"]),
            raw.get("description"),
            raw.get("defaultValue"),
        )

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"id": self.id, "name": self.name, "type": type_to_json(self.type)}
        if self.description is not None:
            out["description"] = self.description
        if self.default_value is not None:
            out["defaultValue"] = self.default_value
        return out


@dataclass(frozen=True, slots=True)
class RowType:
    """A struct type; it is also the type of the rows of a table."""

    fields: tuple[DataField, ...]
    nullable: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> DataField:
        """Return the field called `name`. Raises KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def select(self, names: tuple[str, ...]) -> RowType:
        """Return the fields called `names`, in that order."""
        return RowType(tuple(self.field(name) for name in names), self.nullable)

    def __iter__(self) -> Iterator[DataField]:
        return iter(self.fields)


DataType: TypeAlias = AtomicType | ArrayType | MultisetType | MapType | VectorType | RowType

_LENGTHS = {TypeRoot.CHAR: 1, TypeRoot.VARCHAR: 1, TypeRoot.BINARY: 1, TypeRoot.VARBINARY: 1}
_PRECISIONS = {TypeRoot.TIME: 0, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}
_ALIASES = {
    "NUMERIC": "DECIMAL", "DEC": "DECIMAL", "INTEGER": "INT", "DOUBLE PRECISION": "DOUBLE",
    "TIMESTAMP_LTZ": "TIMESTAMP WITH LOCAL TIME ZONE",
    "TIME WITHOUT TIME ZONE": "TIME", "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
}  # fmt: skip
_TEXT = re.compile(r"([A-Z_]+(?: PRECISION)?)(?:\((\d+)(?:,(\d+))?\))?((?: [A-Z]+)*)")


def _atomic_text(data_type: AtomicType) -> str:
    root = data_type.root
    if root is TypeRoot.VARCHAR and data_type.length == MAX_LENGTH:
        return "STRING"
    if root is TypeRoot.VARBINARY and data_type.length == MAX_LENGTH:
        return "BYTES"
    if root in _LENGTHS:
        return f"{root.value}({data_type.length})"
    if root is TypeRoot.DECIMAL:
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if root is TypeRoot.TIMESTAMP_LTZ:
        return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
    if root in _PRECISIONS:
        return f"{root.value}({data_type.precision})"
    return str(root.value)


def _parse_atomic(text: str) -> AtomicType:
    clean = re.sub(r"\s+", " ", text.strip().upper())
    clean = re.sub(r"\s*([(),])\s*", r"\1", clean).replace(")", ") ").strip()
    clean = re.sub(r"\s+", " ", clean)
    match = _TEXT.fullmatch(clean)
    if match is None:
        raise ValueError(f"{text!r} is not a data type")
    suffix = match[4].strip()
    nullable = True
    if suffix.endswith("NOT NULL"):
        nullable, suffix = False, suffix[: -len("NOT NULL")].strip()
    elif suffix.endswith("NULL"):
        suffix = suffix[: -len("NULL")].strip()
    name = f"{match[1]} {suffix}".strip()
    first = None if match[2] is None else int(match[2])
    if name in ("STRING", "BYTES"):
        root = TypeRoot.VARCHAR if name == "STRING" else TypeRoot.VARBINARY
        return AtomicType(root, length=MAX_LENGTH, nullable=nullable)
    try:
        root = TypeRoot(_ALIASES.get(name, name))
    except ValueError as err:
        raise ValueError(f"{text!r} is not a data type") from err
    if root in _LENGTHS:
        return AtomicType(root, length=_LENGTHS[root] if first is None else first, nullable=nullable)
    if root is TypeRoot.DECIMAL:
        return AtomicType(
            root, precision=10 if first is None else first, scale=int(match[3] or 0), nullable=nullable
        )
    if root in _PRECISIONS:
        return AtomicType(root, precision=_PRECISIONS[root] if first is None else first, nullable=nullable)
    return AtomicType(root, nullable=nullable)


def parse_type(raw: str | Mapping[str, Any]) -> DataType:
    """Parse a type from its JSON, which is text for atomic types and an object for composite ones. Raises
    ValueError.
    """
    if isinstance(raw, str):
        return _parse_atomic(raw)
    words = str(raw["type"]).upper().split()
    nullable = words[1:] != ["NOT", "NULL"]
    match words[0]:
        case "ARRAY":
            return ArrayType(parse_type(raw["element"]), nullable)
        case "MULTISET":
            return MultisetType(parse_type(raw["element"]), nullable)
        case "MAP":
            return MapType(parse_type(raw["key"]), parse_type(raw["value"]), nullable)
        case "ROW":
            return RowType(tuple(DataField.from_json(field) for field in raw["fields"]), nullable)
        case "VECTOR":
            return VectorType(parse_type(raw["element"]), int(raw["length"]), nullable)
    raise ValueError(f"not a data type: {raw['type']!r}")


def type_to_json(data_type: DataType) -> Any:
    """Return the JSON of a type, which is text or an object."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case AtomicType():
            return str(data_type)
        case ArrayType():
            return {"type": "ARRAY" + suffix, "element": type_to_json(data_type.element)}
        case MultisetType():
            return {"type": "MULTISET" + suffix, "element": type_to_json(data_type.element)}
        case MapType():
            return {
                "type": "MAP" + suffix,
                "key": type_to_json(data_type.key),
                "value": type_to_json(data_type.value),
            }
        case VectorType():
            return {
                "type": "VECTOR" + suffix,
                "element": type_to_json(data_type.element),
                "length": data_type.length,
            }
        case RowType():
            return {"type": "ROW" + suffix, "fields": [field.to_json() for field in data_type.fields]}


def with_nullable(data_type: DataType, nullable: bool) -> DataType:
    """Return the same type with that nullability."""
    return data_type if data_type.nullable == nullable else replace(data_type, nullable=nullable)
