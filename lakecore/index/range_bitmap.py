"""This module writes and searches the file index `range-bitmap`: a sorted dictionary of the values, and the
rows of each code as bit slices.

Bytes: head (version, row count, number of values, lowest and highest value, length of the dictionary),
dictionary, slices. The dictionary lies in chunks: heads hold the first value, the rest follows behind all
heads. Codes are ranks. Every part begins with the length of its own head.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.index.distinct import DistinctValues, ValueLog
from lakecore.index.keys import KeyCodec, bytes_of, offsets_of
from lakecore.index.query import Among, Nulls, Present, Query, Range, Without
from lakecore.index.slices import Slices, add_bits
from lakecore.index.values import decode_numbers
from lakecore.row.roaring.bitmap32 import decode_roaring, encode_roaring
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["RangeBitmapRules", "RangeBitmapWriter", "search"]

_VERSION = 1
_HEAD = struct.Struct(">bii")
_INT = struct.Struct(">i")
_DICTIONARY = struct.Struct(">ibiii")
_CHUNK = struct.Struct(">iiiii")
_SLICES = struct.Struct(">ibbii")
_PLACE = struct.Struct(">ii")
_MAX_SLICES = 64
_MAX_CHUNK = (1 << 31) - 1
_UNCHUNKED = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT)


@dataclass(frozen=True, slots=True)
class RangeBitmapRules:
    """These are the options of a range bitmap. `chunk_size` is the number of bytes of values in a chunk
    beside its first; None stands for 0 for short types and 16 KB for others.
    """

    chunk_size: int | None = None

    def check(self, key: str) -> None:
        """Raise InvalidOptionError that names `key`, the prefix of the options, if the chunk size is too
        large.
        """
        if self.chunk_size is not None and self.chunk_size > _MAX_CHUNK:
            raise InvalidOptionError(
                f"option {key}.chunk-size={self.chunk_size}: must be at most {_MAX_CHUNK} bytes"
            )

    def size_for(self, data_type: AtomicType) -> int:
        if self.chunk_size is not None:
            return self.chunk_size
        return 0 if data_type.root in _UNCHUNKED else 16 << 10


class RangeBitmapWriter:
    """It takes a column batch by batch. Memory: the different values, 4 bytes a row; twice that at the
    end.
    """

    def __init__(self, data_type: AtomicType, rules: RangeBitmapRules) -> None:
        self._codec = KeyCodec(data_type)
        self._chunk_size = rules.size_for(data_type)
        self._log = ValueLog(data_type)

    def add(self, array: pa.Array) -> None:
        self._log.add(array)

    def encode(self) -> bytes | None:
        """Return the index, or None if all values are null: Java (up to 2.0) looks for nulls in the first and
        the last row of such an index only.
        """
        distinct = self._log.distinct()
        if not len(distinct):
            return None
        keys = self._codec.encode(distinct)
        dictionary = self._dictionary(keys)
        bounds: bytes = keys[0].as_py() + keys[-1].as_py()
        head = _HEAD.pack(_VERSION, len(distinct.codes), len(keys)) + bounds + _INT.pack(len(dictionary))
        return _INT.pack(len(head)) + head + dictionary + _encode_slices(distinct)

    def _dictionary(self, keys: pa.Array) -> bytes:
        sizes = np.diff(offsets_of(keys))
        offsets: list[bytes] = []
        heads: list[bytes] = []
        bodies: list[bytes] = []
        heads_size = bodies_size = 0
        for first, end in _chunks(sizes, self._chunk_size, fixed=self._codec.width is not None):
            rest = bytes_of(keys, first + 1, end)
            places, last = self._places(sizes[first + 1 : end], len(rest))
            head = b"\1" + keys[first].as_py() + _CHUNK.pack(first, bodies_size, end - first - 1, *last)
            offsets.append(_INT.pack(heads_size))
            heads.append(head)
            bodies.append(places + rest)
            heads_size += len(head)
            bodies_size += len(places) + len(rest)
        offsets_size = 4 * len(offsets)
        head = _DICTIONARY.pack(_DICTIONARY.size - 4, _VERSION, len(heads), offsets_size, heads_size)
        return b"".join((head, *offsets, *heads, *bodies))

    def _places(self, sizes: npt.NDArray[np.int64], total: int) -> tuple[bytes, tuple[int, int]]:
        """Return the offsets of the values if they vary in width, and the last two numbers of a chunk's
        head.
        """
        width = self._codec.width
        if width is not None:
            return b"", (total, width)
        starts = np.cumsum(sizes) - sizes
        return starts.astype(">i4").tobytes(), (4 * len(sizes), total)


def _chunks(sizes: npt.NDArray[np.int64], limit: int, *, fixed: bool) -> Iterator[tuple[int, int]]:
    """Yield the first value and the end of each chunk: values after the first have at most `limit` bytes, and
    so have the offsets of values that vary in width.
    """
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        end = int(np.searchsorted(ends, ends[first] + limit, side="right"))
        if not fixed:
            end = min(end, first + 1 + limit // 4)
        yield first, end
        first = end


def _encode_slices(distinct: DistinctValues) -> bytes:
    """Return the bit slices. Rule of the format: there are as many slices as the highest code has bits, at
    least one.
    """
    count = max((len(distinct) - 1).bit_length(), 1)
    rows = np.flatnonzero(distinct.codes >= 0).astype(np.uint32)
    slices = [BitMap() for _ in range(count)]
    add_bits(slices, rows, distinct.codes[rows].astype(np.uint64))
    present = encode_roaring(BitMap(rows))
    encoded = [encode_roaring(rows) for rows in slices]
    ends = np.cumsum([len(data) for data in encoded]).tolist()
    places = [_PLACE.pack(end - len(data), len(data)) for end, data in zip(ends, encoded, strict=True)]
    size = _PLACE.size * count
    head = _SLICES.pack(_SLICES.size - 4 + size, _VERSION, count, len(present), size)
    return b"".join((head, *places, present, *encoded))


def search(data: bytes, data_type: AtomicType, rows: int, query: Query, path: str) -> BitMap | None:
    """Return the rows that may match the query. `rows` is the number of rows of the data file. Raises
    CorruptDataError.
    """
    try:
        return _Reader(data, KeyCodec(data_type), rows, path).search(query)
    except (struct.error, IndexError, ValueError) as err:
        raise CorruptDataError(path, f"is not a range-bitmap index: {err}") from err


class _Reader:
    def __init__(self, data: bytes, codec: KeyCodec, rows: int, path: str) -> None:
        (length,) = _INT.unpack_from(data)
        version, count, values = _HEAD.unpack_from(data, 4)
        _check_version(version, path)
        if count != rows:
            raise CorruptDataError(
                path, f"contains a range-bitmap index of {count} rows for a file of {rows} rows"
            )
        if length < _HEAD.size + 4 or not 0 <= values <= rows:
            raise CorruptDataError(
                path,
                f"contains a range-bitmap index of {values} values whose head takes {length} bytes, which is "
                "not possible",
            )
        (dictionary,) = _INT.unpack_from(data, length)
        self._rows = rows
        self._values = values
        self._dictionary = _Dictionary(data, 4 + length, codec, values, path)
        self._slices = Slices(BitMap(), ())
        if values:
            self._slices = _decode_slices(data, 4 + length + dictionary, rows, path)

    def search(self, query: Query) -> BitMap:
        present = self._slices.rows
        match query:
            case Nulls():
                return BitMap(range(self._rows)) - present
            case Present():
                return present
            case Among(values=values):
                return self._among(values)
            case Without(values=values):
                return present - self._among(values)
            case Range(low=low, high=high, low_open=low_open, high_open=high_open):
                first, last = 0, self._values - 1
                if low is not None:
                    first, is_present = self._dictionary.find(low)
                    first += is_present and low_open
                if high is not None:
                    last, is_present = self._dictionary.find(high)
                    last -= not (is_present and not high_open)
                return self._slices.within(first, last)

    def _among(self, values: tuple[Any, ...]) -> BitMap:
        codes = [code for code, is_present in map(self._dictionary.find, values) if is_present]
        return BitMap().union(*(self._slices.equal(code) for code in codes))


class _Dictionary:
    """Finds the code of a value; chunks are decoded when a search ends in them."""

    def __init__(self, data: bytes, start: int, codec: KeyCodec, values: int, path: str) -> None:
        self._data = data
        self._codec = codec
        self._values = values
        length, version, chunks, offsets, heads = _DICTIONARY.unpack_from(data, start)
        _check_version(version, path)
        at = start + 4 + length
        if not 0 <= chunks <= values or offsets < 4 * chunks or heads < 0 or at + offsets + heads > len(data):
            raise ValueError(f"its dictionary has {chunks} chunks")
        self._keys_at = at + offsets + heads
        places = np.frombuffer(data, ">i4", chunks, at).tolist()
        block_heads = [self._head(at + offsets + place) for place in places]
        self._firsts = [first for first, _ in block_heads]
        self._chunks = [chunk for _, chunk in block_heads]

    def find(self, value: Any) -> tuple[int, bool]:
        """Return the code of `value`, or of the next higher one (there may be none), and whether `value` is
        there.
        """
        chunk = bisect_right(self._firsts, value) - 1
        if chunk < 0:
            return 0, False
        code, offset, size, offsets = self._chunks[chunk]
        if self._firsts[chunk] == value:
            return code, True
        start = self._keys_at + offset
        width = self._codec.width
        if width is None:
            place, is_present = self._find_text(start, size, offsets, value)
        else:
            keys = decode_numbers(np.frombuffer(self._data, f">i{width}", size, start), self._codec.data_type)
            place = int(np.searchsorted(keys, value))
            is_present = place < size and int(keys[place]) == value
        return code + 1 + place, is_present

    def _head(self, at: int) -> tuple[Any, tuple[int, int, int, int]]:
        first, at = self._codec.read(self._data, at + 1)
        code, offset, size, offsets, _ = _CHUNK.unpack_from(self._data, at)
        if code < 0 or offset < 0 or size < 0 or code + size >= self._values:
            raise ValueError(f"a chunk has {size} values from code {code} on")
        return first, (code, offset, size, offsets)

    def _find_text(self, start: int, size: int, offsets: int, value: Any) -> tuple[int, bool]:
        places = np.frombuffer(self._data, ">i4", size, start)

        def key(i: int) -> Any:
            return self._codec.read(self._data, start + offsets + int(places[i]))[0]

        place = bisect_left(range(size), value, key=key)
        return place, place < size and key(place) == value


def _decode_slices(data: bytes, at: int, rows: int, path: str) -> Slices:
    length, version, count, present, size = _SLICES.unpack_from(data, at)
    _check_version(version, path)
    if not 0 < count <= _MAX_SLICES or size < _PLACE.size * count:
        raise ValueError(f"it has {count} slices")
    body = at + 4 + length
    rows_of_slice, _ = decode_roaring(data, body, path, rows)
    slices = []
    for i in range(count):
        offset, _ = _PLACE.unpack_from(data, at + _SLICES.size + _PLACE.size * i)
        slices.append(decode_roaring(data, body + present + offset, path, rows)[0])
    return Slices(rows_of_slice, tuple(slices))


def _check_version(version: int, path: str) -> None:
    if version != _VERSION:
        raise CorruptDataError(
            path, f"contains a range-bitmap index of version {version}; this release reads version {_VERSION}"
        )
