"""This module converts columns to plain texts and back, for CSV and terminals: they are the texts of
`json_text` without quotes.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError
from lakecore.row.json_columns import fast_column
from lakecore.row.json_text import column_json
from lakecore.row.json_values import from_json
from lakecore.row.values import normal_array, values_array
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataField, DataType, TypeRoot

__all__ = ["column_texts", "parse_texts"]

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_CAST = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)


def column_texts(column: pa.Array, data_type: DataType) -> pa.Array:
    """Return the text of each value; null stays null. Nested values are JSON."""
    if isinstance(data_type, AtomicType) and data_type.root in _TEXTS:
        return normal_array(column, data_type)
    texts = column_json(column, data_type)
    if isinstance(data_type, AtomicType):
        texts = _unquote(texts, data_type)
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _unquote(texts: pa.Array, data_type: AtomicType) -> pa.Array:
    if data_type.root is TypeRoot.VARIANT:
        return pa.array([json.loads(text) for text in texts.to_pylist()], pa.string())
    return pc.utf8_trim(texts, '"')


def parse_texts(texts: pa.Array, field: DataField, first_row: int) -> pa.Array:
    """Parse `texts` (strings, null is null) as the column of a field. Nested values are JSON.

    Raises InvalidInputError naming row (counted from `first_row`), column and text.
    """
    data_type = field.type
    if isinstance(data_type, AtomicType) and data_type.root in _TEXTS:
        return texts
    quick = _fast(texts, data_type)
    return quick if quick is not None else _one_by_one(texts.to_pylist(), field, first_row)


def _fast(texts: pa.Array, data_type: DataType) -> pa.Array | None:
    if isinstance(data_type, AtomicType) and data_type.root in _CAST:
        try:
            return texts.cast(arrow_type(data_type))
        except pa.ArrowInvalid:
            return None
    return fast_column(texts.to_pylist(), data_type)


def _one_by_one(texts: list[str | None], field: DataField, first_row: int) -> pa.Array:
    convert = from_json(field.type)
    nested = not isinstance(field.type, AtomicType)
    out: list[Any] = []
    for row, text in enumerate(texts, first_row):
        try:
            out.append(None if text is None else convert(json.loads(text) if nested else text))
        except (InvalidInputError, ValueError, TypeError, ArithmeticError, KeyError) as err:
            raise InvalidInputError(f"row {row}, column {field.name}: {err}") from err
    return values_array(out, field.type)
