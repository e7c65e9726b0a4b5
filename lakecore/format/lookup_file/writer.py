"""This module writes lookup files: entries of a key and a value in the order of the keys, many at once.
`reader` has the layout.

Rules of Paimon's SstFileWriter: a block ends with the entry that makes it larger than the size of a block; it
is compressed if that saves an eighth.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import cramjam
import numpy as np
from backports import zstd

from lakecore.data_class import dataclass
from lakecore.format.lookup_file.compact_values import ByteRows, joined_bytes
from lakecore.format.lookup_file.key_bits import KeyBits
from lakecore.format.lookup_file.varints import Ints, encode_varint, encode_varints

__all__ = ["LookupFileOptions", "LookupFileWriter"]

_FOOTER = struct.Struct("<qiqqii")
_MAGIC = 1481571681
_TRAILER = struct.Struct("<Bi")
_LZ4_HEADER = struct.Struct("<ii")
_ALIGNED, _UNALIGNED = b"\0", b"\1"
_POSITION = 4
_BLOCK_TAIL = 5
_NONE, _ZSTD, _LZ4 = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFileOptions:
    """These are the options of a lookup file."""

    codec: str | None
    """It is `zstd`, `lz4` or None."""
    zstd_level: int
    block_size: int
    fpp: float | None
    """This is the probability of a false positive of the bloom filter; None: there is none."""


class LookupFileWriter:
    """It makes the bytes of one file. Memory: a byte a bit of the bloom filter, and what was added last."""

    def __init__(self, rows: int, options: LookupFileOptions) -> None:
        """Begin a file of so many rows."""
        self._options = options
        self._bits = None if options.fpp is None or not rows else KeyBits(rows, options.fpp)
        self._size = 0
        self._index: list[tuple[bytes, bytes]] = []
        self._keys = ByteRows(np.zeros(0, np.uint8), np.zeros(0, np.int64))
        self._entries = self._keys

    def add(self, keys: ByteRows, values: ByteRows) -> Iterator[bytes]:
        """Add entries, and yield the bytes that are complete."""
        if self._bits is not None:
            self._bits.add(keys)
        parts = [part for rows in (keys, values) for part in (_sizes(rows), rows)]
        self._entries = _append(self._entries, joined_bytes(parts))
        self._keys = _append(self._keys, keys)
        yield from self._blocks(whole=True)

    def finish(self) -> Iterator[bytes]:
        """Yield the remaining bytes."""
        yield from self._blocks(whole=False)
        filter_place = (0, 0, 0)
        if self._bits is not None:
            data = self._bits.data
            filter_place = (self._size, len(data), self._bits.rows)
            self._size += len(data)
            yield data
        index_place = self._size
        entries = [_with_size(key) + _with_size(place) for key, place in self._index]
        content = np.frombuffer(b"".join(entries), np.uint8)
        stored = self._stored_block(content, np.fromiter(map(len, entries), np.int64, len(entries)))
        yield stored
        size, entry_count = len(stored) - _TRAILER.size, filter_place[2]
        yield _FOOTER.pack(filter_place[0], filter_place[1], entry_count, index_place, size, _MAGIC)

    def _blocks(self, *, whole: bool) -> Iterator[bytes]:
        """Yield the blocks of the entries so far: those that are `whole`, or all."""
        sizes = self._entries.sizes
        ends = np.concatenate([[0], np.cumsum(sizes)])
        key_ends = np.cumsum(self._keys.sizes)
        at = 0
        for end in _cuts(sizes, ends, self._options.block_size):
            if end < 0:
                if whole:
                    break
                end = len(sizes)
            stored = self._stored_block(self._entries.data[ends[at] : ends[end]], sizes[at:end])
            last = self._keys.data[key_ends[end - 1] - self._keys.sizes[end - 1] : key_ends[end - 1]]
            place = encode_varint(self._size) + encode_varint(len(stored) - _TRAILER.size)
            self._index.append((last.tobytes(), place))
            self._size += len(stored)
            at = end
            yield stored
        self._keys, self._entries = _without(self._keys, at), _without(self._entries, at)

    def _stored_block(self, content: Ints, sizes: Ints) -> bytes:
        """Return a block as it is stored, with its trailer."""
        if len(sizes) and (sizes == sizes[0]).all():
            block = content.tobytes() + int(sizes[0]).to_bytes(4, "little") + _ALIGNED
        else:
            starts = (np.cumsum(sizes) - sizes).astype("<i4").tobytes()
            block = content.tobytes() + starts + len(sizes).to_bytes(4, "little") + _UNALIGNED
        kind, packed = self._pack(block)
        if kind == _NONE or len(packed) >= len(block) - len(block) // 8:
            kind, packed = _NONE, block
        checksum = zlib.crc32(bytes([kind]), zlib.crc32(packed))
        return packed + _TRAILER.pack(kind, checksum - (1 << 32) if checksum >> 31 else checksum)

    def _pack(self, block: bytes) -> tuple[int, bytes]:
        codec = self._options.codec
        if codec is None:
            return _NONE, block
        size = encode_varint(len(block))
        if codec == "zstd":
            return _ZSTD, size + zstd.compress(block, level=self._options.zstd_level)
        body = bytes(cramjam.lz4.compress_block(block, store_size=False))
        return _LZ4, size + _LZ4_HEADER.pack(len(body), len(block)) + body


def _cuts(sizes: Ints, ends: Ints, block_size: int) -> Iterator[int]:
    """Yield the end of each block in turn; -1 for one that may go on, unless there is nothing in it.

    A block has five bytes at its end, and the places of its entries if they differ in size.
    """
    count, at = len(sizes), 0
    changes = np.append(np.flatnonzero(np.diff(sizes)) + 1, count)
    with_places = ends + _POSITION * np.arange(count + 1)
    while at < count:
        same = int(changes[np.searchsorted(changes, at, "right")])
        most = block_size - _BLOCK_TAIL
        end = int(np.searchsorted(ends, ends[at] + most, "right"))
        if end > same:
            end = max(int(np.searchsorted(with_places, with_places[at] + most, "right")), same + 1)
        if end > count:
            yield -1
            return
        yield end
        at = end


def _sizes(rows: ByteRows) -> ByteRows:
    return ByteRows(*encode_varints(rows.sizes))


def _with_size(data: bytes) -> bytes:
    return encode_varint(len(data)) + data


def _append(first: ByteRows, second: ByteRows) -> ByteRows:
    if not len(first):
        return second
    return ByteRows(np.concatenate([first.data, second.data]), np.concatenate([first.sizes, second.sizes]))


def _without(rows: ByteRows, count: int) -> ByteRows:
    """Return the rows but for so many at the beginning."""
    return ByteRows(rows.data[int(rows.sizes[:count].sum()) :], rows.sizes[count:])
