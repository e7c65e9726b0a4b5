"""This module writes and searches the file index `bsi`: integers, dates, times, timestamps and short decimals
as bit slices.

Bytes: version, row count, then two halves, values from 0 up and values below 0 by their absolute value. A
half: present?, version, lowest and highest value, the rows that are in it, number of slices, slices. The
lowest value is always 0: writers of the format begin to compare with it.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.index.query import Among, Nulls, Present, Query, Range, Without
from lakecore.index.slices import Slices, add_bits
from lakecore.index.values import Numbers, stored_numbers
from lakecore.row.roaring.bitmap32 import decode_roaring, encode_roaring
from lakecore.types.datatypes import AtomicType

__all__ = ["BsiWriter", "search"]

_VERSION = 1
_HEAD = struct.Struct(">bi")
_HALF = struct.Struct(">bqq")
_MAX_SLICES = 64
_LOWEST = -(1 << 63)


class BsiWriter:
    """It writes the index of one column, to which batches are added. It needs the memory of the bitmaps,
    at most 128 of them.
    """

    def __init__(self, data_type: AtomicType) -> None:
        self._kind = data_type
        self._rows = 0
        self._halves = (_HalfWriter(), _HalfWriter())

    def add(self, array: pa.Array) -> None:
        """Add the values of a batch. Raises UnsupportedError for the lowest 64-bit number, which the format
        cannot represent.
        """
        try:
            numbers, valid = stored_numbers(array, self._kind)
        except OverflowError as err:
            raise UnsupportedError(f"index bsi: {err}; use another index type for the column") from err
        rows = np.arange(self._rows, self._rows + len(numbers), dtype=np.int64)
        self._rows += len(numbers)
        if valid is not None:
            rows, numbers = rows[valid], numbers[valid]
        if (numbers == _LOWEST).any():
            raise UnsupportedError(
                f"index bsi cannot hold the value {_LOWEST}; use another index type for the column"
            )
        below = numbers < 0
        self._halves[0].add(rows[~below], numbers[~below])
        self._halves[1].add(rows[below], -numbers[below])

    def encode(self) -> bytes:
        return _HEAD.pack(_VERSION, self._rows) + b"".join(half.encode() for half in self._halves)


class _HalfWriter:
    def __init__(self) -> None:
        self._rows = BitMap()
        self._slices: list[BitMap] = []
        self._highest = 0

    def add(self, rows: Numbers, numbers: Numbers) -> None:
        if not len(rows):
            return
        self._highest = max(self._highest, int(numbers.max()))
        while len(self._slices) < self._highest.bit_length():
            self._slices.append(BitMap())
        self._rows |= BitMap(rows.astype(np.uint32))
        add_bits(self._slices, rows.astype(np.uint32), numbers.astype(np.uint64))

    def encode(self) -> bytes:
        if not self._rows:
            return b"\0"
        head = b"\1" + _HALF.pack(_VERSION, 0, self._highest) + encode_roaring(self._rows)
        slices = b"".join(encode_roaring(rows) for rows in self._slices)
        return head + struct.pack(">i", len(self._slices)) + slices


@dataclass(frozen=True, slots=True)
class _Half:
    low: int
    numbers: Slices

    def within(self, low: int, high: int) -> BitMap:
        return self.numbers.within(low - self.low, high - self.low)


def search(data: bytes, rows: int, query: Query, path: str) -> BitMap | None:
    """Return the rows that may match the query. `rows` is the number of rows of the data file. Raises
    CorruptDataError.
    """
    above, below = _decode(data, rows, path)
    present = above.numbers.rows | below.numbers.rows
    match query:
        case Nulls():
            return BitMap(range(rows)) - present
        case Present():
            return present
        case Among(values=values):
            return BitMap().union(*(_between(above, below, value, value) for value in values))
        case Without(values=values):
            return present - BitMap().union(*(_between(above, below, value, value) for value in values))
        case Range(low=low, high=high, low_open=low_open, high_open=high_open):
            lowest = _LOWEST if low is None else low + low_open
            highest = -_LOWEST if high is None else high - high_open
            return _between(above, below, lowest, highest)


def _between(above: _Half, below: _Half, low: int, high: int) -> BitMap:
    rows = above.within(max(low, 0), high) if high >= 0 else BitMap()
    return rows | below.within(max(-high, 1), -low) if low < 0 else rows


def _decode(data: bytes, rows: int, path: str) -> tuple[_Half, _Half]:
    try:
        version, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise CorruptDataError(
                path, f"contains a bsi index of version {version}; this release reads version {_VERSION}"
            )
        if count != rows:
            raise CorruptDataError(path, f"contains a bsi index of {count} rows for a file of {rows} rows")
        above, at = _decode_half(data, _HEAD.size, rows, path)
        below, _ = _decode_half(data, at, rows, path)
    except (struct.error, IndexError) as err:
        raise CorruptDataError(path, f"is not a bsi index: {err}") from err
    return above, below


def _decode_half(data: bytes, at: int, rows: int, path: str) -> tuple[_Half, int]:
    if not data[at]:
        return _Half(0, Slices(BitMap(), ())), at + 1
    version, low, _ = _HALF.unpack_from(data, at + 1)
    present, at = decode_roaring(data, at + 1 + _HALF.size, path, rows)
    (count,) = struct.unpack_from(">i", data, at)
    if version != _VERSION or not 0 <= count <= _MAX_SLICES:
        raise CorruptDataError(
            path,
            f"contains a bsi index of version {version} with {count} slices, which this release cannot read",
        )
    at += 4
    slices = []
    for _ in range(count):
        rows_of_value, at = decode_roaring(data, at, path, rows)
        slices.append(rows_of_value)
    return _Half(low, Slices(present, tuple(slices))), at
