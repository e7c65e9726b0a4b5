"""This module has what a splice looks at in the schema of a parquet file. It is pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from lakecore.data_class import dataclass
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.thrift_compact import (
    Field,
    Struct,
    ThriftList,
    WireType,
    decode_struct,
    encode_struct,
)

__all__ = ["FileSchema", "Leaf", "ValueOrder", "file_schema"]

_BOOLEAN, _INT32, _INT64, _INT96, _FIXED = 0, 1, 2, 3, 7
_REPEATED = 2
_DECIMAL = 5
"""It is the number of decimals among converted types and among logical types alike."""
_SIGNED_CONVERTED = (_DECIMAL, 6, 7, 8, 9, 10, 15, 16, 17, 18)
"""These converted types of integers are signed: decimals, dates, times, timestamps, and INT_8 to INT_64."""
_SIGNED_LOGICAL = (_DECIMAL, 6, 7, 8)
"""So are these logical types: decimals, dates, times and timestamps."""
_INTEGER, _IS_SIGNED = 10, 2
_LIST = b"\x19"
"""It is the head of field 1, a list."""


class ValueOrder(Enum):
    """It says how bounds of pages compare that are values of their column. INTEGER: signed, little endian.
    DECIMAL: signed, big endian. BOOLEAN: one byte.
    """

    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"

    def rank(self, bound: bytes) -> int:
        """Return a number that compares as the value does."""
        if self is ValueOrder.DECIMAL:
            return int.from_bytes(bound, "big", signed=True)
        return int.from_bytes(bound, "little", signed=self is ValueOrder.INTEGER)


@dataclass(frozen=True, slots=True)
class Leaf:
    """This is a leaf column. `repeated` tells that a row may have several values of it, or none."""

    repeated: bool
    order: ValueOrder | None
    """It is None where bounds of a page may be cut (text), leave values out (floats), or have no order that
    this release knows.
    """


@dataclass(frozen=True, slots=True)
class FileSchema:
    """These are the columns of a file. Files of one writer have the same; so it is decoded once for all."""

    paths: tuple[bytes, ...]
    """These are the paths of its leaf columns, in order, each as the bytes with which a chunk names its
    column.
    """
    columns: tuple[bytes, ...]
    """These are the names of its top-level columns, in order."""
    int96: bool
    """It tells whether a column is INT96."""
    leaves: tuple[Leaf, ...]
    key: bytes
    """It is the same for schemas whose row groups mean the same: names by case, field ids, order, nullability
    and types.
    """


@lru_cache(maxsize=16)
def file_schema(data: bytes) -> FileSchema:
    """Return the schema of a footer, whose elements (a thrift list) are `data`. Raises ValueError, KeyError,
    AttributeError, IndexError for bytes that are none.
    """
    elements: list[Struct] = decode_struct(_LIST + data + b"\0")[1].value.values
    paths, leaves, columns = _leaves(elements)
    int96 = any(_value(element, f.ELEMENT_TYPE) == _INT96 for element in elements)
    return FileSchema(tuple(map(_path_bytes, paths)), columns, int96, leaves, _key(elements))


def _value(element: Struct, field: int, default: Any = None) -> Any:
    result = element.get(field)
    return default if result is None else result.value


def _leaves(
    elements: Sequence[Struct],
) -> tuple[tuple[tuple[bytes, ...], ...], tuple[Leaf, ...], tuple[bytes, ...]]:
    """Return the paths of the leaf columns of a schema, whose elements are in the order of a walk, the
    columns themselves, and the names of the top-level ones.
    """
    paths: list[tuple[bytes, ...]] = []
    leaves: list[Leaf] = []
    columns: list[bytes] = []

    def walk(at: int, path: tuple[bytes, ...], *, repeated: bool) -> int:
        element = elements[at]
        at += 1
        children = _value(element, f.ELEMENT_CHILDREN, 0)
        below = (*path, bytes(element[f.ELEMENT_NAME].value))
        repeated = repeated or _value(element, f.ELEMENT_REPETITION) == _REPEATED
        if not path:
            columns.append(below[0])
        if not children:
            paths.append(below)
            leaves.append(Leaf(repeated, _order(element)))
        for _ in range(children):
            at = walk(at, below, repeated=repeated)
        return at

    at = 1
    for _ in range(_value(elements[0], f.ELEMENT_CHILDREN, 0)):
        at = walk(at, (), repeated=False)
    if at != len(elements):
        raise ValueError(f"{len(elements)} elements of a schema that has {at}")
    return tuple(paths), tuple(leaves), tuple(columns)


def _order(element: Struct) -> ValueOrder | None:
    """Return how bounds of a leaf column compare; None where they may not be values."""
    kind, converted = _value(element, f.ELEMENT_TYPE), _value(element, f.ELEMENT_CONVERTED)
    logical: Struct = _value(element, f.ELEMENT_LOGICAL, {})
    if kind == _BOOLEAN:
        return ValueOrder.BOOLEAN if converted is None and not logical else None
    if kind == _FIXED:
        is_decimal = converted == _DECIMAL or _DECIMAL in logical
        return ValueOrder.DECIMAL if is_decimal else None
    if kind not in (_INT32, _INT64) or not (converted is None or converted in _SIGNED_CONVERTED):
        return None
    signed = all(number in _SIGNED_LOGICAL or _is_signed(number, logical) for number in logical)
    return ValueOrder.INTEGER if signed else None


def _is_signed(number: int, logical: Struct) -> bool:
    return number == _INTEGER and bool(_value(logical[number].value, _IS_SIGNED, False))


def _path_bytes(leaf: tuple[bytes, ...]) -> bytes:
    names = ThriftList(WireType.BINARY, list(leaf))
    return encode_struct({1: Field(WireType.LIST, names)})[1:-1]


def _key(elements: Sequence[Struct]) -> bytes:
    """Return all that the elements say, but the root's name, and what follows from a logical type."""
    key = bytearray()
    for number, element in enumerate(elements):
        left_out = set()
        if number == 0:
            left_out |= {f.ELEMENT_NAME, f.ELEMENT_REPETITION, f.ELEMENT_ID}
        if f.ELEMENT_LOGICAL in element:
            left_out |= {f.ELEMENT_CONVERTED, f.ELEMENT_SCALE, f.ELEMENT_PRECISION}
        if _value(element, f.ELEMENT_TYPE) != _FIXED:
            left_out.add(f.ELEMENT_LENGTH)
        meaning = {field: value for field, value in element.items() if field not in left_out}
        if not _value(element, f.ELEMENT_CHILDREN, 0):
            meaning.pop(f.ELEMENT_CHILDREN, None)
        key += encode_struct(meaning) + b"|"
    return bytes(key)
