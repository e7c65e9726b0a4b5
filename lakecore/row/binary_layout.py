"""This module computes sizes and widths of the binary row layout, for the one-row codec and the vectorised
one.
"""

from __future__ import annotations

from lakecore.types.datatypes import AtomicType, DataType, TypeRoot

__all__ = [
    "COMPACT_MILLIS",
    "FIXED_FORMATS",
    "MAX_COMPACT_DECIMAL",
    "array_header_size",
    "element_size",
    "null_bits_size",
    "padded",
]

MAX_COMPACT_DECIMAL = 18
"""Decimals of up to this precision are an int64 in the slot."""

COMPACT_MILLIS = 3
"""Timestamps of up to this precision are int64 milliseconds in the slot."""

FIXED_FORMATS = {
    TypeRoot.BOOLEAN: "?",
    TypeRoot.TINYINT: "b",
    TypeRoot.SMALLINT: "h",
    TypeRoot.INT: "i",
    TypeRoot.BIGINT: "q",
    TypeRoot.FLOAT: "f",
    TypeRoot.DOUBLE: "d",
    TypeRoot.DATE: "i",
    TypeRoot.TIME: "i",
}
"""These are the `struct` codes of the types whose slot is the value itself."""

_WIDTHS = {"?": 1, "b": 1, "h": 2, "i": 4, "f": 4, "q": 8, "d": 8}


def null_bits_size(arity: int) -> int:
    """Return the bytes of the header and null bits of a row: bit i + 8 marks field i, in whole 8-byte
    words.
    """
    return (arity + 63 + 8) // 64 * 8


def array_header_size(count: int) -> int:
    """Return the bytes of the element count and null bits of an array."""
    return 4 + (count + 31) // 32 * 4


def element_size(data_type: DataType) -> int:
    """Return the bytes that one element takes in the fixed part of an array."""
    if isinstance(data_type, AtomicType) and data_type.root in FIXED_FORMATS:
        return _WIDTHS[FIXED_FORMATS[data_type.root]]
    return 8


def padded(size: int) -> int:
    """Return `size` rounded up to a multiple of 8."""
    return -(-size // 8) * 8
