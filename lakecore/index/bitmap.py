"""This module has the file index `bitmap`: for each value, the rows that hold it. It supports versions 1
and 2.

Version 1: version, row count, number of values, nulls (flag, offset), entries (value, offset), bitmaps.
Version 2: entries are sorted and lie in blocks, each entry with the length of its bitmap; the first values
of the blocks come first, so that few blocks need to be looked at.
Rule of both: an offset below 0 is a single row, -1 - offset, without a bitmap.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.index.distinct import DistinctValues, ValueLog
from lakecore.index.grouped import encode_groups
from lakecore.index.keys import KeyCodec, bytes_of, fixed_binary, joined_pairs, offsets_of
from lakecore.index.query import Among, Nulls, Present, Query, Range, Without
from lakecore.index.values import decode_numbers
from lakecore.row.roaring.bitmap32 import decode_roaring, encode_roaring
from lakecore.types.datatypes import AtomicType

__all__ = ["BitmapRules", "BitmapWriter", "search"]

Ints: TypeAlias = npt.NDArray[np.int64]
Entries: TypeAlias = dict[Any, int]
"""These are the offsets of the bitmaps, by value."""

_V1, _V2 = 1, 2
_HEAD = struct.Struct(">bii?")
_INT = struct.Struct(">i")
_PAIR = struct.Struct(">ii")
_UNKNOWN = -1
_MAX_BODY = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class BitmapRules:
    """These are the options of a bitmap index. `block_size` is the number of bytes of a block of entries
    (version 2).
    """

    version: int = _V2
    block_size: int = 16 << 10

    def check(self, key: str) -> None:
        """Raise InvalidOptionError that names `key`, the prefix of the options, if the version is not
        known.
        """
        if self.version not in (_V1, _V2):
            raise InvalidOptionError(f"option {key}.version={self.version}: must be 1 or 2")

    def check_width(self, key: str, width: int) -> None:
        """Raise InvalidOptionError that names `key` unless a block has room for a value of `width` bytes."""
        least = _INT.size + _PAIR.size + width
        if self.block_size < least:
            raise InvalidOptionError(
                f"option {key}.index-block-size={self.block_size}: must be at least {least} bytes"
            )


class BitmapWriter:
    """It takes a column batch by batch. Memory: the different values, and 4 bytes a row; twice that at the
    end.

    It is for columns of few values.
    """

    def __init__(self, data_type: AtomicType, rules: BitmapRules) -> None:
        self._codec = KeyCodec(data_type)
        self._rules = rules
        self._log = ValueLog(data_type)

    def add(self, array: pa.Array) -> None:
        self._log.add(array)

    def encode(self) -> bytes:
        """Return the bytes of the index. Raises InvalidOptionError when a block is too small for one
        value.
        """
        distinct = self._log.distinct()
        groups = _Groups.of(distinct)
        nulls = encode_roaring(BitMap(groups.nulls.astype(np.uint32)))
        body = [nulls] if len(groups.nulls) > 1 else []
        offsets, lengths = self._places(groups, body)
        head = _HEAD.pack(self._rules.version, len(distinct.codes), len(distinct), len(groups.nulls) > 0)
        null_offset = -1 - int(groups.nulls[0]) if len(groups.nulls) == 1 else 0
        keys = self._codec.encode(distinct)
        if self._rules.version == _V1:
            place = _INT.pack(null_offset) if len(groups.nulls) else b""
            entries = bytes_of(_with_numbers(keys, offsets))
        else:
            place = _PAIR.pack(null_offset, len(nulls)) if len(groups.nulls) else b""
            entries = self._blocks(keys, _with_numbers(keys, offsets, lengths))
        return b"".join((head, place, entries, *body))

    def _places(self, groups: _Groups, body: list[bytes]) -> tuple[Ints, Ints]:
        """Return the offset and the length of each value, and append the bitmaps of those with several rows
        to `body`.
        """
        offsets, lengths = -1 - groups.first, np.full(len(groups.first), _UNKNOWN, np.int64)
        start = sum(map(len, body))
        several = groups.counts > 1
        rows = groups.order[len(groups.nulls) :][np.repeat(several, groups.counts)]
        data, sizes = encode_groups(rows.astype(np.uint32), groups.counts[several])
        if start + len(data) > _MAX_BODY:
            raise OverflowError(f"its bitmaps take {start + len(data)} bytes")
        offsets[several], lengths[several] = start + np.cumsum(sizes) - sizes, sizes
        body.append(data)
        return offsets, lengths

    def _blocks(self, keys: pa.Array, entries: pa.Array) -> bytes:
        room = self._rules.block_size - _INT.size
        ends = offsets_of(entries)[1:] - offsets_of(entries)[0]
        heads: list[bytes] = []
        bodies: list[bytes] = []
        first = size = 0
        while first < len(keys):
            filled = int(ends[first - 1]) if first else 0
            end = int(np.searchsorted(ends, filled + room, side="right"))
            if end == first:
                raise InvalidOptionError(
                    f"option index-block-size={self._rules.block_size} of a bitmap index: a value of "
                    f"{len(keys[first].as_py())} bytes does not fit into a block; raise the option, or use "
                    "another index type"
                )
            heads.append(keys[first].as_py() + _INT.pack(size))
            bodies.append(_INT.pack(end - first) + bytes_of(entries, first, end))
            size += len(bodies[-1])
            first = end
        return b"".join((_INT.pack(len(heads)), *heads, _INT.pack(size), *bodies))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows by value. `first` is a row of each value, `counts` the number of its rows, and `nulls` are the
    rows of null.
    """

    order: Ints
    counts: Ints
    first: Ints
    nulls: Ints

    @classmethod
    def of(cls, distinct: DistinctValues) -> _Groups:
        few = len(distinct) <= np.iinfo(np.int16).max  # sorted by their digits, several times as fast
        order = np.argsort(distinct.codes.astype(np.int16) if few else distinct.codes, kind="stable")
        counts = np.bincount(distinct.codes + 1, minlength=len(distinct) + 1)
        ends = np.cumsum(counts)
        starts = ends[:-1]
        return cls(order, counts[1:], order[starts], order[: ends[0]])


def _with_numbers(keys: pa.Array, *columns: Ints) -> pa.Array:
    """Return each key followed by its number of every column as int32."""
    numbers = np.stack(columns, axis=1).astype(">i4").tobytes()
    return joined_pairs(keys, fixed_binary(numbers, 4 * len(columns)))


def search(data: bytes, data_type: AtomicType, rows: int, query: Query, path: str) -> BitMap | None:
    """Return the rows that match the query, or None for ranges. `rows` is the number of rows of the file.
    Raises CorruptDataError.
    """
    if isinstance(query, Range):
        return None
    try:
        index = _Reader(data, KeyCodec(data_type), rows, path)
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
        raise CorruptDataError(path, f"is not a bitmap index: {err}") from err


class _Reader:
    """The head of one index; entries are looked at when asked for."""

    def __init__(self, data: bytes, codec: KeyCodec, rows: int, path: str) -> None:
        self._data = data
        self._codec = codec
        self._path = path
        self._rows = rows
        version, count, self._values, self._has_null = _HEAD.unpack_from(data)
        if version not in (_V1, _V2):
            raise CorruptDataError(
                path, f"contains a bitmap index of version {version}; this release reads versions 1 and 2"
            )
        if count != rows:
            raise CorruptDataError(path, f"contains a bitmap index of {count} rows for a file of {rows} rows")
        if not 0 <= self._values <= len(data):
            raise CorruptDataError(
                path, f"contains a bitmap index of {self._values} values, which is not possible"
            )
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
                raise CorruptDataError(
                    self._path, f"contains a bitmap index of {self._rows} rows that names row {row}"
                )
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
        """Return the entries that begin at `at`, and their end."""
        if not 0 <= count <= len(self._data):
            raise ValueError(f"it has {count} entries")
        extra = 8 if lengths else 4
        width = self._codec.width
        if width is not None:
            layout = np.dtype([("value", f">i{width}"), ("offset", ">i4"), ("rest", f"V{extra - 4}")])
            records = np.frombuffer(self._data, layout, count, at)
            values = decode_numbers(records["value"], self._codec.data_type).tolist()
            return dict(zip(values, records["offset"].tolist(), strict=True)), at + count * layout.itemsize
        entries: Entries = {}
        for _ in range(count):
            value, at = self._codec.read(self._data, at)
            (entries[value],) = _INT.unpack_from(self._data, at)
            at += extra
        return entries, at
