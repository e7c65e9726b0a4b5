"""This module converts whole columns of parsed JSON to Arrow arrays, where Arrow converts exactly as
`json_values` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataType, TypeRoot

__all__ = ["fast_column"]

_INT, _TEXT = frozenset({int}), frozenset({str})
_ACCEPTED: dict[TypeRoot, frozenset[type]] = {
    TypeRoot.TINYINT: _INT,
    TypeRoot.SMALLINT: _INT,
    TypeRoot.INT: _INT,
    TypeRoot.BIGINT: _INT,
    TypeRoot.DOUBLE: frozenset({float}),
    TypeRoot.BOOLEAN: frozenset({bool}),
    TypeRoot.CHAR: _TEXT,
    TypeRoot.VARCHAR: _TEXT,
    TypeRoot.DATE: _TEXT,
    TypeRoot.DECIMAL: _TEXT,
    TypeRoot.TIMESTAMP: _TEXT,
    TypeRoot.TIMESTAMP_LTZ: _TEXT,
}
_PARSED = (TypeRoot.DATE, TypeRoot.DECIMAL)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_ZEROS = {"ms": r"(\.\d{3})0{1,6}$", "us": r"(\.\d{6})0{1,3}$"}


def fast_column(raws: Sequence[Any], data_type: DataType) -> pa.Array | None:
    """Return the column, or None when a value needs `json_values` (or is wrong, which only `json_values` can
    explain).
    """
    if not isinstance(data_type, AtomicType) or data_type.root not in _ACCEPTED:
        return None
    if not set(map(type, raws)) <= _ACCEPTED[data_type.root] | {type(None)}:
        return None
    target = arrow_type(data_type)
    try:
        if data_type.root in _TIMESTAMPS:
            return _timestamps(pa.array(raws, pa.string()), target)
        if data_type.root in _PARSED:
            return pa.array(raws, pa.string()).cast(target)
        return pa.array(raws, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def _timestamps(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse timestamps without trailing zeros beyond the unit and without a final Z; any other zone is left
    to the slow path.
    """
    texts = pc.utf8_rtrim(texts, "Z")
    if target.unit in _ZEROS:
        texts = pc.replace_substring_regex(texts, _ZEROS[target.unit], r"\1")
    return texts.cast(pa.timestamp(target.unit)).view(target)
