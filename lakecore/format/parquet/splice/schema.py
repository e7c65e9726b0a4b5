"""This module has what a splice looks at in the schema of a parquet file. It is pure."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["FileSchema", "file_schema"]

_INT96, _FIXED = 3, 7
_LIST = b"\x19"
"""It is the head of field 1, a list."""


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
    leaves, columns = _leaves(elements)
    int96 = any(_value(element, f.ELEMENT_TYPE) == _INT96 for element in elements)
    return FileSchema(tuple(map(_path_bytes, leaves)), columns, int96, _key(elements))


def _value(element: Struct, field: int, default: Any = None) -> Any:
    result = element.get(field)
    return default if result is None else result.value


def _leaves(elements: Sequence[Struct]) -> tuple[tuple[tuple[bytes, ...], ...], tuple[bytes, ...]]:
    """Return the paths of the leaf columns of a schema, whose elements are in the order of a walk, and the
    names of its columns.
    """
    leaves: list[tuple[bytes, ...]] = []
    columns: list[bytes] = []

    def walk(at: int, path: tuple[bytes, ...]) -> int:
        element = elements[at]
        at += 1
        children = _value(element, f.ELEMENT_CHILDREN, 0)
        below = (*path, bytes(element[f.ELEMENT_NAME].value))
        if not path:
            columns.append(below[0])
        if not children:
            leaves.append(below)
        for _ in range(children):
            at = walk(at, below)
        return at

    at = 1
    for _ in range(_value(elements[0], f.ELEMENT_CHILDREN, 0)):
        at = walk(at, ())
    if at != len(elements):
        raise ValueError(f"{len(elements)} elements of a schema that has {at}")
    return tuple(leaves), tuple(columns)


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
