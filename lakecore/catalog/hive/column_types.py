"""This module writes types of Paimon as types of Hive, as Java's `HiveTypeUtils` does. It is pure."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

__all__ = ["hive_type"]

_NAMES = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.BLOB: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
    TypeRoot.VARIANT: "struct<value:binary,metadata:binary>",
}
_LONGEST_CHAR, _LONGEST_VARCHAR = 255, 65535


def hive_type(kind: DataType) -> str:
    """Return the text of the type in Hive. Raises UnsupportedError for a type that Hive lacks."""
    match kind:
        case AtomicType():
            return _atomic(kind)
        case ArrayType() | VectorType():
            return f"array<{hive_type(kind.element)}>"
        case MultisetType():
            return f"map<{hive_type(kind.element)},int>"
        case MapType():
            return f"map<{hive_type(kind.key)},{hive_type(kind.value)}>"
        case RowType():
            return f"struct<{','.join(f'{one.name}:{hive_type(one.type)}' for one in kind.fields)}>"
    raise UnsupportedError(f"type {kind}: Hive has no such type; leave the column out")


def _atomic(kind: AtomicType) -> str:
    match kind.root:
        case TypeRoot.DECIMAL:
            return f"decimal({kind.precision},{kind.scale})"
        case TypeRoot.CHAR:
            return f"char({kind.length})" if kind.length <= _LONGEST_CHAR else "string"
        case TypeRoot.VARCHAR:
            return f"varchar({kind.length})" if kind.length <= _LONGEST_VARCHAR else "string"
    return _NAMES[kind.root]
