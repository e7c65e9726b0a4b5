"""This module says which columns of a parquet file that another program wrote Java Paimon cannot read, or
reads with other values: their physical or logical types are none that Paimon writes or accepts.

The rules are those of Java's `ParquetVectorUpdaterFactory` of 1.4; later releases accept more.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq

__all__ = ["unreadable_columns"]

_NAMES = {
    "BOOLEAN": ("None",),
    "INT32": ("None", "Int", "Date", "Time", "Decimal"),
    "INT64": ("None", "Int", "Timestamp", "Decimal"),
    "INT96": ("None",),
    "FLOAT": ("None",),
    "DOUBLE": ("None",),
    "BYTE_ARRAY": ("None", "String", "Enum", "JSON", "BSON", "Decimal"),
    "FIXED_LEN_BYTE_ARRAY": ("None", "Decimal"),
}
_UNSIGNED_BITS = (8, 16)
"""The unsigned numbers whose values are those of the signed number with as many bytes in the file."""


def unreadable_columns(schema: pq.ParquetSchema) -> dict[str, str]:
    """Return the types of such columns, as parquet names them, by the paths of their values."""
    leaves = (schema.column(at) for at in range(len(schema)))
    return {
        leaf.path: f"{leaf.physical_type} with {leaf.logical_type}"
        for leaf in leaves
        if not _is_readable(leaf)
    }


def _is_readable(leaf: pq.ColumnSchema) -> bool:
    logical = json.loads(leaf.logical_type.to_json())
    name = logical["Type"]
    if name not in _NAMES.get(leaf.physical_type, ()):
        return bool(name == "Null")
    if name == "Int":
        return bool(logical["isSigned"]) or logical["bitWidth"] in _UNSIGNED_BITS
    return not (name == "Timestamp" and logical["timeUnit"] == "nanoseconds")
