"""File index `bitmap`: for each value, the rows that hold it. Versions 1 and 2.

Version 1: version, row count, number of values, nulls (flag, offset), entries (value, offset), bitmaps.
Version 2: entries are sorted and lie in blocks, each entry with the length of its bitmap; the first values
of the blocks come first, so that few blocks need to be looked at.
Rule of both: an offset below 0 is a single row, -1 - offset, without a bitmap.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.index.distinct import DistinctValues, ValueLog
from lakecore.index.keys import KeyCodec
from lakecore.index.query import Among, Nulls, Present, Query, Range, Without
from lakecore.index.roaring import decode_roaring, encode_roaring
from lakecore.index.values import decode_numbers
from lakecore.types.datatypes import AtomicType

__all__ = ["BitmapRules", "BitmapWriter", "search"]

Entries: TypeAlias = dict[Any, int]
"""Value -> offset."""

_V1, _V2 = 1, 2
_HEAD = struct.Struct(">bii?")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BitmapRules:
    """`block_size`: bytes of a block of entries (version 2)."""

    version: int = _V2
    block_size: int = 16 << 10

    def check(self, key: str) -> None:
        """Raises InvalidOptionError naming `key`, the prefix of the options."""
        if self.version not in (_V1, _V2):
            raise InvalidOptionError(f"option {key}.version={self.version}: must be 1 or 2")


class BitmapWriter:
    """Takes a column batch by batch. Memory: the different values, and 4 bytes a row; twice that at the end.

    Made for columns of few values: a value costs some microseconds when the index is encoded.
    """

    def __init__(self, kind: AtomicType, rules: BitmapRules) -> None:
        self._codec = KeyCodec(kind)
        self._rules = rules
        self._log = ValueLog(kind)

    def add(self, array: pa.Array) -> None:
        self._log.add(array)

    def encode(self) -> bytes:
        """Raises InvalidOptionError when a block is too small for one value."""
        distinct = self._log.distinct()
        null_rows, groups = _groups(distinct)
        nulls = _encode_rows(null_rows)
        body = [] if nulls.single else [nulls.data]
        offsets, lengths = [], []
        at = len(nulls.data) if not nulls.single else 0
        for rows in groups:
            found = _encode_rows(rows)
            offsets.append(-1 - int(rows[0]) if found.single else at)
            lengths.append(_UNKNOWN if found.single else len(found.data))
            if not found.single:
                body.append(found.data)
                at += len(found.data)
        keys = self._codec.encode(distinct)
        head = _HEAD.pack(self._rules.version, len(distinct.codes), len(keys), bool(len(null_rows)))
        null_offset = -1 - int(null_rows[0]) if nulls.single and len(null_rows) else 0
        if self._rules.version == _V1:
            place = _INT.pack(null_offset) if len(null_rows) else b""
            entries = b"".join(k + _INT.pack(o) for k, o in zip(keys, offsets, strict=True))
        else:
            place = _PAIR.pack(null_offset, len(nulls.data)) if len(null_rows) else b""
            entries = self._blocks(keys, offsets, lengths)
        return b"".join((head, place, entries, *body))

    def _blocks(self, keys: Sequence[bytes], offsets: Sequence[int], lengths: Sequence[int]) -> bytes:
        blocks = [_Block(0)] if keys else []
        for key, offset, length in zip(keys, offsets, lengths, strict=True):
            entry = key + _PAIR.pack(offset, length)
            if blocks[-1].size + len(entry) > self._rules.block_size:
                blocks.append(_Block(blocks[-1].start + blocks[-1].size))
            if blocks[-1].size + len(entry) > self._rules.block_size:
                raise InvalidOptionError(
                    f"option index-block-size={self._rules.block_size} of a bitmap index: a value of "
                    f"{len(key)} bytes does not fit; raise it, or index the column with another type"
                )
            blocks[-1].add(key, entry)
        heads = b"".join(block.first + _INT.pack(block.start) for block in blocks)
        total = sum(block.size for block in blocks)
        bodies = b"".join(_INT.pack(len(block.entries)) + b"".join(block.entries) for block in blocks)
        return _INT.pack(len(blocks)) + heads + _INT.pack(total) + bodies


@dataclass(slots=True)
class _Block:
    start: int
    first: bytes = b""
    size: int = _INT.size
    entries: list[bytes] = field(default_factory=list)

    def add(self, key: bytes, entry: bytes) -> None:
        if not self.entries:
            self.first = key
        self.entries.append(entry)
        self.size += len(entry)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Encoded rows of one value. `single`: at most one, which needs no bitmap."""

    data: bytes
    single: bool


def _encode_rows(rows: npt.NDArray[np.int64]) -> _Rows:
    return _Rows(encode_roaring(BitMap(rows.astype(np.uint32))), len(rows) <= 1)


def _groups(distinct: DistinctValues) -> tuple[npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Rows of null, and rows of each value."""
    order = np.argsort(distinct.codes, kind="stable")
    ends = np.searchsorted(distinct.codes[order], np.arange(-1, len(distinct)), side="right")
    parts = np.split(order, ends)
    return parts[0], parts[1:-1]


def search(data: bytes, kind: AtomicType, rows: int, query: Query, path: str) -> BitMap | None:
    """Rows that hold what is asked for; None for ranges. `rows`: of the file. Raises CorruptDataError."""
    if isinstance(query, Range):
        return None
    try:
        index = _Reader(data, KeyCodec(kind), rows, path)
        match query:
            case Nulls():
                return index.nulls()
            case Present():
                return BitMap(range(rows)) - index.nulls()
            case Among(values=values):
                return index.rows_of(values)
            case Without(values=values):
                return BitMap(range(rows)) - index.nulls() - index.rows_of(values)
    except (struct.error, IndexError, ValueError) as err:
        raise CorruptDataError(path, f"not a bitmap index: {err}") from err


class _Reader:
    """The head of one index; entries are looked at when asked for."""

    def __init__(self, data: bytes, codec: KeyCodec, rows: int, path: str) -> None:
        self._data = data
        self._codec = codec
        self._path = path
        self._rows = rows
        version, count, self._values, self._has_null = _HEAD.unpack_from(data)
        if version not in (_V1, _V2):
            raise CorruptDataError(path, f"a bitmap index of version {version}; this release knows 1 and 2")
        if count != rows:
            raise CorruptDataError(path, f"a bitmap index of {count} rows beside a file of {rows}")
        if not 0 <= self._values <= len(data):
            raise CorruptDataError(path, f"a bitmap index of {self._values} values")
        self._version = version
        self._null_offset = 0
        at = _HEAD.size
        if self._has_null:
            (self._null_offset,) = _INT.unpack_from(data, at)
            at += 4 if version == _V1 else 8
        self._at = at
        self._entries: Entries = {}
        self._body = 0
        self._block_keys: list[Any] = []
        self._block_starts: list[int] = []
        if version == _V1:
            self._entries, self._body = self._read_entries(at, self._values, lengths=False)
        else:
            self._read_block_heads(at)

    def nulls(self) -> BitMap:
        return self._bitmap(self._null_offset) if self._has_null else BitMap()

    def rows_of(self, values: Sequence[Any]) -> BitMap:
        offsets = [self._offset(value) for value in values]
        return BitMap().union(*(self._bitmap(offset) for offset in offsets if offset is not None))

    def _bitmap(self, offset: int) -> BitMap:
        if offset < 0:
            row = -1 - offset
            if row >= self._rows:
                raise CorruptDataError(self._path, f"row {row} in an index of {self._rows} rows")
            return BitMap([row])
        return decode_roaring(self._data, self._body + offset, self._path, self._rows)[0]

    def _offset(self, value: Any) -> int | None:
        if self._version == _V1:
            return self._entries.get(value)
        block = bisect_right(self._block_keys, value) - 1
        if block < 0:
            return None
        at = self._block_starts[block]
        (count,) = _INT.unpack_from(self._data, at)
        return self._read_entries(at + 4, count, lengths=True)[0].get(value)

    def _read_block_heads(self, at: int) -> None:
        (count,) = _INT.unpack_from(self._data, at)
        at += 4
        starts = []
        for _ in range(count):
            key, at = self._codec.read(self._data, at)
            (start,) = _INT.unpack_from(self._data, at)
            at += 4
            self._block_keys.append(key)
            starts.append(start)
        (size,) = _INT.unpack_from(self._data, at)
        self._block_starts = [at + 4 + start for start in starts]
        self._body = at + 4 + size

    def _read_entries(self, at: int, count: int, *, lengths: bool) -> tuple[Entries, int]:
        """Entries from `at` on, and where they end."""
        if not 0 <= count <= len(self._data):
            raise ValueError(f"{count} entries")
        extra = 8 if lengths else 4
        width = self._codec.width
        if width is not None:
            layout = np.dtype([("value", f">i{width}"), ("offset", ">i4"), ("rest", f"V{extra - 4}")])
            found = np.frombuffer(self._data, layout, count, at)
            values = decode_numbers(found["value"], self._codec.kind).tolist()
            return dict(zip(values, found["offset"].tolist(), strict=True)), at + count * layout.itemsize
        entries: Entries = {}
        for _ in range(count):
            value, at = self._codec.read(self._data, at)
            (entries[value],) = _INT.unpack_from(self._data, at)
            at += extra
        return entries, at
