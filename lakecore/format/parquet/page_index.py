"""This module reads the page indexes of one parquet file: where each page lies, its first row, and bounds
of its values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakecore.data_class import dataclass
from lakecore.format.bounds import internal_value
from lakecore.format.parquet.page_locations import page_locations
from lakecore.format.parquet.thrift_compact import Struct, decode_struct

__all__ = ["ColumnPages", "RowGroupPages", "page_bounds", "read_row_groups"]

# field ids of parquet.thrift
_ROW_GROUPS = 4
_COLUMNS, _GROUP_ROWS = 1, 3
_META_DATA, _OFFSET_INDEX, _OFFSET_LENGTH, _COLUMN_INDEX, _COLUMN_LENGTH = 3, 4, 5, 6, 7
_PATH = 3
_NULL_PAGES, _MIN_VALUES, _MAX_VALUES = 1, 2, 3
_FORMATS = {pa.int8(): "<i", pa.int16(): "<i", pa.int32(): "<i", pa.int64(): "<q", pa.date32(): "<i"}
_SHORT, _LONG = 9, 18


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """These are the pages of one leaf column in a row group. `first_rows` has one entry more: the rows of
    the group.
    """

    chunk: Struct
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_rows: NDArray[np.int64]

    def covering(self, start: int, stop: int) -> tuple[int, int]:
        """Return the pages [first, last) that have rows [start, stop) of the group; start < stop."""
        first = int(np.searchsorted(self.first_rows, start, "right")) - 1
        last = int(np.searchsorted(self.first_rows, stop, "left"))
        return first, last


class RowGroupPages:
    """These are the pages of a row group: its first row in the file, its rows, and its leaf columns in
    order of the schema, which are read when somebody asks for them.
    """

    def __init__(self, source: Any, group: Struct, first_row: int) -> None:
        self._source = source
        self.group = group
        self.first_row = first_row
        self.rows = int(group[_GROUP_ROWS].value)

    @cached_property
    def columns(self) -> tuple[ColumnPages, ...]:
        """Return the page locations of every leaf column. Raises ValueError on damage."""
        chunks = self.group[_COLUMNS].value.values
        return tuple(_column_pages(self._source, chunk, self.rows) for chunk in chunks)


def read_row_groups(source: Any, meta: Struct) -> tuple[RowGroupPages, ...] | None:
    """Return the pages of all row groups, or None when a column has no offset index, or one with pages that
    do not begin with a row. Raises ValueError on damage.
    """
    groups = []
    first_row = 0
    for group in meta[_ROW_GROUPS].value.values:
        chunks = group[_COLUMNS].value.values
        if any(_OFFSET_INDEX not in chunk or _begins_within_row(source, chunk) for chunk in chunks):
            return None
        groups.append(RowGroupPages(source, group, first_row))
        first_row += groups[-1].rows
    return tuple(groups)


def _begins_within_row(source: Any, chunk: Struct) -> bool:
    """Return whether a page begins within a row. Only values of nested columns are several of a row."""
    if len(chunk[_META_DATA].value[_PATH].value.values) == 1:
        return False
    _, _, firsts = page_locations(_read(source, chunk, _OFFSET_INDEX, _OFFSET_LENGTH))
    return bool((np.diff(firsts) == 0).any())


def page_bounds(
    source: Any, column: ColumnPages, data_type: pa.DataType
) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Return the lowest and highest value of each page, as values that compare as keys do (text as UTF-8
    bytes).

    They may be shortened text, which is still below and above every value. The result is None without a
    column index, for pages of nulls only, and for a type that has no order here.
    """
    if _COLUMN_INDEX not in column.chunk:
        return None
    index = decode_struct(_read(source, column.chunk, _COLUMN_INDEX, _COLUMN_LENGTH))
    low, high = index[_MIN_VALUES].value.values, index[_MAX_VALUES].value.values
    if any(index[_NULL_PAGES].value.values) or not len(low) == len(high) == len(column.offsets):
        return None
    try:
        return [_value(raw, data_type) for raw in low], [_value(raw, data_type) for raw in high]
    except _NoOrder:
        return None


class _NoOrder(Exception):
    """A type whose bounds are not used as keys."""


def _value(raw: bytes, data_type: pa.DataType) -> Any:
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return raw
    if pa.types.is_boolean(data_type):
        return raw != b"\0"
    if pa.types.is_decimal(data_type):
        short = "<i" if data_type.precision <= _SHORT and len(raw) == 4 else None
        wide = "<q" if _SHORT < data_type.precision <= _LONG and len(raw) == 8 else None
        code = short or wide
        return internal_value(struct.unpack(code, raw)[0] if code else raw, data_type)
    code = (
        "<q"
        if pa.types.is_timestamp(data_type)
        else "<i"
        if pa.types.is_time32(data_type)
        else _FORMATS.get(data_type)
    )
    if code is None:
        raise _NoOrder
    return internal_value(struct.unpack(code, raw)[0], data_type)


def _column_pages(source: Any, chunk: Struct, rows: int) -> ColumnPages:
    offsets, sizes, firsts = page_locations(_read(source, chunk, _OFFSET_INDEX, _OFFSET_LENGTH))
    first_rows = np.append(firsts, np.int64(rows))
    if first_rows[0] != 0 or (np.diff(first_rows) <= 0).any():
        raise ValueError("the first rows of pages in the offset index do not increase")
    return ColumnPages(chunk, offsets, sizes, first_rows)


def _read(source: Any, chunk: Struct, offset: int, length: int) -> bytes:
    size, start = int(chunk[length].value), int(chunk[offset].value)
    if not 0 <= start <= start + size <= source.size():  # damage must not ask for memory
        raise ValueError("the file ends inside its page index")
    return bytes(source.read_at(size, start))
