"""This module writes types as SQL text: nested types have angle brackets and stand on one line."""

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


def type_text(data_type: DataType, *, quoted: bool = False) -> str:
    """Return a type as SQL, as in `MAP<STRING NOT NULL, ROW<a INT, b ARRAY<INT>>> NOT NULL`. `quoted` puts
    names in back quotes.
    """
    return _bare(data_type, quoted) + (
        "" if data_type.nullable or isinstance(data_type, AtomicType) else " NOT NULL"
    )


def _bare(data_type: DataType, quoted: bool) -> str:
    match data_type:
        case AtomicType():
            return str(data_type)
        case ArrayType(element=element):
            return f"ARRAY<{type_text(element, quoted=quoted)}>"
        case MultisetType(element=element):
            return f"MULTISET<{type_text(element, quoted=quoted)}>"
        case MapType(key=key, value=value):
            return f"MAP<{type_text(key, quoted=quoted)}, {type_text(value, quoted=quoted)}>"
        case VectorType(element=element, length=length):
            return f"VECTOR<{type_text(element, quoted=quoted)}, {length}>"
        case RowType(fields=fields):
            mark = "`" if quoted else ""
            parts = (f"{mark}{field.name}{mark} {type_text(field.type, quoted=quoted)}" for field in fields)
            return f"ROW<{', '.join(parts)}>"
