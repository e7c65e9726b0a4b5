"""This module formats columns as JSON texts, one a row: numbers as Java prints them, DECIMAL and times as
strings, bytes as 0x….

NaN and infinities are strings; a MAP is a list of pairs ordered by their text; a ROW is an object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.row.values import array_values, normal_array
from lakecore.row.variant import variant_text
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
from lakecore.types.float_text import java_float_text
from lakecore.types.text import date_text, time_text, timestamp_text

__all__ = ["column_json", "quoted", "value_json"]

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.BOOLEAN)
_COUNT_TYPE = AtomicType(TypeRoot.INT, nullable=False)
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'
_PLAIN_DECIMAL_SCALE = 6
_CONTROL = {code: f"\\u{code:04X}" for code in range(0x20)}
_CONTROL |= {
    ord(char): escape
    for char, escape in zip('"\\\b\f\n\r\t', ('\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)
}


def column_json(column: pa.Array, data_type: DataType) -> pa.Array:
    """Return the JSON text of each value of `column`; null becomes the text `null`, so that the result has no
    nulls.
    """
    if not isinstance(data_type, AtomicType):
        return _by_value(column, data_type)
    array = normal_array(column, data_type) if data_type.root is not TypeRoot.VARIANT else column
    text = _atomic_texts(array, data_type)
    return pc.fill_null(text, "null")


def _atomic_texts(array: pa.Array, data_type: AtomicType) -> pa.Array:
    root = data_type.root
    if root in _INTEGERS:
        return array.cast(pa.string())
    if root in _TEXTS:
        return _strings(array)
    if root in _FLOATS:
        return _floats(array, data_type)
    if root is TypeRoot.DECIMAL and data_type.scale <= _PLAIN_DECIMAL_SCALE:
        return _in_quotes(array.cast(pa.string()))
    if root is TypeRoot.TIME:
        return _in_quotes(array.cast(pa.string()))
    return _by_value(array, data_type)


def _in_quotes(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _strings(array: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(array, _NEEDS_ESCAPE)).as_py():
        return pa.array([None if v is None else quoted(v) for v in array.to_pylist()], pa.string())
    return _in_quotes(array)


def _floats(array: pa.Array, data_type: AtomicType) -> pa.Array:
    """Return the JSON text of floats. Arrow prints plain numbers like Java does, but without `.0`; the others
    are converted one by one.
    """
    size = pc.abs(array)
    plain = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(array, 0))
    texts = array.cast(pa.string())
    whole = pc.invert(pc.match_substring(texts, "."))
    out = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    odd = pc.invert(plain)
    if not pc.any(odd).as_py():
        return out
    special = [_float_json(v, data_type) for v in array.filter(odd).to_pylist() if v is not None]
    return pc.replace_with_mask(out, pc.fill_null(odd, False), pa.array(special, pa.string()))


def _float_json(value: float, data_type: AtomicType) -> str:
    text = java_float_text(value, single=data_type.root is TypeRoot.FLOAT)
    return f'"{text}"' if text[-1].isalpha() else text


def _by_value(column: pa.Array, data_type: DataType) -> pa.Array:
    to_json = _json_function(data_type)
    texts = ["null" if value is None else to_json(value) for value in array_values(column, data_type)]
    return pa.array(texts, pa.string())


def value_json(value: Any, data_type: DataType) -> str:
    """Return the JSON text of one internal value."""
    return "null" if value is None else _json_function(data_type)(value)


def _json_function(data_type: DataType) -> Callable[[Any], str]:
    """Return a function from a value that is not None to its JSON text."""
    match data_type:
        case AtomicType():
            return _atomic_function(data_type)
        case ArrayType(element=element) | VectorType(element=element):
            return _list_function(element)
        case MapType(key=key, value=value):
            return _pairs_function(key, value)
        case MultisetType(element=element):
            return _pairs_function(element, _COUNT_TYPE)
        case RowType():
            return _row_function(data_type)


def _atomic_function(data_type: AtomicType) -> Callable[[Any], str]:
    root = data_type.root
    if root in _TEXTS:
        return quoted
    if root in _FLOATS:
        return lambda value: _float_json(value, data_type)
    if root in _TIMESTAMPS:
        zone = "Z" if root is TypeRoot.TIMESTAMP_LTZ else ""
        return lambda value: f'"{timestamp_text(value, 9 if value % 1_000_000_000 else 0)}{zone}"'
    if root is TypeRoot.VARIANT:
        return lambda value: quoted(variant_text(*value))
    return _ATOMIC_FUNCTIONS.get(root, _hex)


def _hex(value: bytes) -> str:
    return f'"0x{value.hex()}"'


_ATOMIC_FUNCTIONS: dict[TypeRoot, Callable[[Any], str]] = {
    TypeRoot.TINYINT: str,
    TypeRoot.SMALLINT: str,
    TypeRoot.INT: str,
    TypeRoot.BIGINT: str,
    TypeRoot.BOOLEAN: json.dumps,
    TypeRoot.DECIMAL: lambda value: f'"{value:f}"',
    TypeRoot.DATE: lambda value: f'"{date_text(value)}"',
    TypeRoot.TIME: lambda value: f'"{time_text(value)}"',
}


def quoted(text: str) -> str:
    """Return a JSON string, in which only quotes, backslashes and control characters are escaped."""
    if text.isprintable():
        return encode_basestring(text)
    return f'"{text.translate(_CONTROL)}"'


def _list_function(element: DataType) -> Callable[[Any], str]:
    of_element = _json_function(element)

    def to_json(values: Sequence[Any]) -> str:
        return "[" + ",".join("null" if v is None else of_element(v) for v in values) + "]"

    return to_json


def _pairs_function(key: DataType, value: DataType) -> Callable[[Any], str]:
    of_key, of_value = _json_function(key), _json_function(value)

    def to_json(pairs: Sequence[tuple[Any, Any]]) -> str:
        texts = [
            f"[{'null' if k is None else of_key(k)},{'null' if v is None else of_value(v)}]" for k, v in pairs
        ]
        return "[" + ",".join(sorted(texts)) + "]"

    return to_json


def _row_function(data_type: RowType) -> Callable[[Any], str]:
    parts = [(quoted(field.name), _json_function(field.type)) for field in data_type.fields]

    def to_json(values: Sequence[Any]) -> str:
        pairs = zip(parts, values, strict=True)
        return "{" + ",".join(f"{n}:{'null' if v is None else f(v)}" for (n, f), v in pairs) + "}"

    return to_json
