"""This module converts parsed JSON to internal values of a type: the reverse of `json_text`, a little more
lenient.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from lakecore.errors import InvalidInputError
from lakecore.row.variant import parse_variant
from lakecore.types.datatypes import (
    INTEGER_BITS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)
from lakecore.types.text import parse_value

__all__ = ["from_json"]

Convert = Callable[[Any], Any]

_BEYOND = {TypeRoot.FLOAT: 2**128 - 2**103, TypeRoot.DOUBLE: 2**1024 - 2**970}
"""Numbers from here on are rounded to infinite ones."""
_COUNT_TYPE = AtomicType(TypeRoot.INT, nullable=False)
_DAYS = (TypeRoot.DATE, TypeRoot.TIME)


def from_json(data_type: DataType) -> Convert:
    """Return a function from parsed JSON (not None) to the value; the function raises InvalidInputError
    naming both.
    """
    match data_type:
        case AtomicType():
            return _atomic(data_type)
        case ArrayType(element=element):
            return _list(element)
        case VectorType(element=element, length=length):
            return _vector(element, length)
        case MapType(key=key, value=value):
            return _pairs(key, value)
        case MultisetType(element=element):
            return _pairs(element, _COUNT_TYPE)
        case RowType():
            return _row(data_type)


def _wrong(raw: Any, data_type: DataType, hint: str) -> InvalidInputError:
    return InvalidInputError(f"{raw!r} is not a value of type {data_type}: {hint}")


def _atomic(data_type: AtomicType) -> Convert:
    root = data_type.root
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return lambda raw: raw if isinstance(raw, str) else _reject(raw, data_type, "write it in quotes")
    if root is TypeRoot.BOOLEAN:
        return lambda raw: raw if isinstance(raw, bool) else _text(raw, data_type)
    if root in INTEGER_BITS:
        return _integer(data_type, 1 << (INTEGER_BITS[root] - 1))
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _floating(data_type, _BEYOND[root])
    if root is TypeRoot.DECIMAL:
        return lambda raw: _text(str(raw) if type(raw) in (int, float) else raw, data_type)
    if root is TypeRoot.VARIANT:
        return lambda raw: parse_variant(raw if isinstance(raw, str) else json.dumps(raw))
    if root in _DAYS:
        return lambda raw: raw if type(raw) is int else _text(raw, data_type)
    return lambda raw: _text(raw, data_type)


def _reject(raw: Any, data_type: DataType, hint: str) -> Any:
    raise _wrong(raw, data_type, hint)


def _text(raw: Any, data_type: AtomicType) -> Any:
    return (
        parse_value(raw, data_type) if isinstance(raw, str) else _reject(raw, data_type, "write it in quotes")
    )


def _integer(data_type: AtomicType, limit: int) -> Convert:
    def convert(raw: Any) -> int:
        if type(raw) is float and raw.is_integer():
            raw = int(raw)
        if type(raw) is not int:
            return int(_text(raw, data_type))
        if not -limit <= raw < limit:
            raise _wrong(raw, data_type, f"the range is {-limit} to {limit - 1}")
        return raw

    return convert


def _floating(data_type: AtomicType, limit: int) -> Convert:
    """Infinite numbers are values; finite ones that become infinite are not."""

    def convert(raw: Any) -> float:
        if type(raw) not in (int, float):
            return float(_text(raw, data_type))
        if limit <= abs(raw) != math.inf:
            raise _wrong(raw, data_type, "it is too large")
        return float(raw)

    return convert


def _element(data_type: DataType) -> Convert:
    convert = from_json(data_type)
    return lambda raw: None if raw is None else convert(raw)


def _list(element: DataType) -> Convert:
    convert = _element(element)

    def to_list(raw: Any) -> list[Any]:
        if not isinstance(raw, list):
            raise InvalidInputError(f"{raw!r} is not an array; write [..., ...]")
        return [convert(item) for item in raw]

    return to_list


def _vector(element: DataType, length: int) -> Convert:
    convert = _list(element)

    def to_vector(raw: Any) -> list[Any]:
        values = convert(raw)
        if len(values) != length:
            raise InvalidInputError(f"{len(values)} elements do not fit a vector of {length}")
        return list(values)

    return to_vector


def _pairs(key: DataType, value: DataType) -> Convert:
    of_key, of_value = _element(key), _element(value)

    def to_pairs(raw: Any) -> list[tuple[Any, Any]]:
        pairs = raw.items() if isinstance(raw, dict) else raw
        if isinstance(raw, str) or any(
            not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs
        ):
            raise InvalidInputError(f"{raw!r} is not a map; write [[key, value], ...] or {{key: value}}")
        # Later pairs replace earlier ones with the same key, as in a map.
        return list({json.dumps(k): (of_key(k), of_value(v)) for k, v in pairs}.values())

    return to_pairs


def _row(data_type: RowType) -> Convert:
    parts = [(field.name, _element(field.type)) for field in data_type.fields]
    names = set(data_type.names)

    def to_row(raw: Any) -> tuple[Any, ...]:
        if isinstance(raw, list) and len(raw) == len(parts):
            return tuple(convert(item) for (_, convert), item in zip(parts, raw, strict=True))
        if not isinstance(raw, dict) or not raw.keys() <= names:
            raise InvalidInputError(
                f"{raw!r} is not a row of {', '.join(data_type.names)}; write {{name: value, ...}}"
            )
        return tuple(convert(raw.get(name)) for name, convert in parts)

    return to_row
