"""This module formats values as the format's system tables show them in text columns. Times of the JVM's
zone are UTC here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from lakecore.row.binary_row import decode_row
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot
from lakecore.types.float_text import java_float_text
from lakecore.types.text import timestamp_text, value_text

__all__ = ["MILLI_NANOS", "flat_json", "pretty_json", "raw_text", "row_text", "serialized_row_text"]

MILLI_NANOS = 1_000_000
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_NUMBERS = (TypeRoot.DATE, TypeRoot.TIME)


def row_text(values: Sequence[Any], data_type: RowType) -> str:
    """Return `{2024-01-01, 7}`: each value is cast to a string."""
    parts = zip(values, data_type.fields, strict=True)
    return "{" + ", ".join(_cast_text(value, field.type) for value, field in parts) + "}"


def serialized_row_text(data: bytes, data_type: RowType, path: str) -> str:
    """Return `row_text` of a serialised row. Raises CorruptDataError naming `path`."""
    return row_text(decode_row(data, data_type, path), data_type)


def _cast_text(value: Any, data_type: DataType) -> str:
    return "null" if value is None else value_text(value, data_type)


def raw_text(value: Any, data_type: DataType) -> str:
    """Return the internal value as text: a DATE is a number of days, a timestamp ISO; bytes are hexadecimal,
    0x….
    """
    if value is None:
        return "null"
    root = data_type.root if isinstance(data_type, AtomicType) else None
    if root in _NUMBERS:
        return str(value)
    if root in _TIMESTAMPS:
        text = timestamp_text(value, separator="T")
        return text.removesuffix(":00") if "." not in text else text
    if root in _FLOATS:
        return java_float_text(value, single=root is TypeRoot.FLOAT)
    if root in _BYTES:
        return "0x" + bytes(value).hex()
    return value_text(value, data_type)


def flat_json(value: Any) -> str:
    """Format JSON on one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pretty_json(value: Any) -> str:
    """Format JSON with two spaces a level, ` : ` after a key, and keys in their order."""
    return json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "))


def bracketed(parts: Iterable[str]) -> str:
    """Return `[a, b]`."""
    return f"[{', '.join(parts)}]"
