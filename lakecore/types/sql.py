"""Types as people write them: nested types in angle brackets, on one line."""

from __future__ import annotations

from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

__all__ = ["type_text"]


def type_text(kind: DataType) -> str:
    """`MAP<STRING NOT NULL, ROW<a INT, b ARRAY<INT>>> NOT NULL`."""
    return _bare(kind) + ("" if kind.nullable or isinstance(kind, AtomicType) else " NOT NULL")


def _bare(kind: DataType) -> str:
    match kind:
        case AtomicType():
            return str(kind)
        case ArrayType(element=element):
            return f"ARRAY<{type_text(element)}>"
        case MultisetType(element=element):
            return f"MULTISET<{type_text(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case VectorType(element=element, length=length):
            return f"VECTOR<{type_text(element)}, {length}>"
        case RowType(fields=fields):
            return f"ROW<{', '.join(f'{field.name} {type_text(field.type)}' for field in fields)}>"
