"""This module reads the entries of a lookup file in their order, many at once.

Layout (Paimon's SortLookupStoreWriter, SstFileWriter, BlockWriter; releases 1.4 and 2.0), numbers are
little-endian: data blocks, a bloom filter, an index block of (last key, place of the block) for each data
block, and a footer of 36 bytes. Each block is followed by its compression and a CRC-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import cramjam
import numpy as np
from backports import zstd

from lakecore.data_class import dataclass
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.lookup_file.varints import PADDING, Ints, read_varint, read_varints
from lakecore.fs.file_io import RangeSource

__all__ = ["LookupEntries", "read_entries"]

_FOOTER = struct.Struct("<qiqqii")
_MAGIC = 1481571681
_TRAILER = struct.Struct("<Bi")
_TAIL = struct.Struct("<iB")
_MOST_BLOCK = 256 << 20
_READ_BYTES = 4 << 20
_ALIGNED, _UNALIGNED = 0, 1


@dataclass(frozen=True, slots=True)
class LookupEntries:
    """These are consecutive entries: `values[i]` has the bytes [starts[i], ends[i]) of `data`."""

    data: Ints
    """It has PADDING at its end."""
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class _Place:
    """This is where a block is; its trailer follows it."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + _TRAILER.size


def read_entries(source: RangeSource, path: str) -> Iterator[LookupEntries]:
    """Yield the values of all entries in their order, some megabytes at a time.

    It reads the footer and the index, then all data blocks once; memory is bounded by the index and by the
    largest block. Raises CorruptDataError, and what storage raises.
    """
    with corrupt_data_errors(path):
        places = _read_index(source)
        for group in _groups(places):
            data = source.read_at(group[-1].end - group[0].offset, group[0].offset)
            blocks = [_block(data, place, group[0].offset) for place in group]
            yield _join([_entries(block) for block in blocks])


def _read_index(source: RangeSource) -> list[_Place]:
    """Return the places of the data blocks. Raises ValueError where they do not follow each other."""
    footer = source.size() - _FOOTER.size
    if footer < 0:
        raise ValueError(f"{source.size()} bytes are too few for a lookup file")
    *_, offset, size, magic = _FOOTER.unpack(source.read_at(_FOOTER.size, footer))
    if magic != _MAGIC:
        raise ValueError("its end is not that of a lookup file")
    index = _Place(offset, size)
    if offset < 0 or size < 0 or index.end > footer:
        raise ValueError("its index is outside of the file")
    entries = _entries(_block(source.read_at(index.end - offset, offset), index, offset))
    places = []
    expected = 0
    for start, end in zip(entries.starts.tolist(), entries.ends.tolist(), strict=True):
        place = _place(entries.data[start:end].tobytes())
        if place.offset != expected or place.end > offset:
            raise ValueError("its blocks do not follow each other")
        expected = place.end
        places.append(place)
    return places


def _place(data: bytes) -> _Place:
    offset, at = read_varint(data, 0)
    size, _ = read_varint(data, at)
    return _Place(offset, size)


def _groups(places: Sequence[_Place]) -> Iterator[list[_Place]]:
    """Yield places that are read at once: some megabytes, or one larger block."""
    group: list[_Place] = []
    for place in places:
        if group and place.end - group[0].offset > _READ_BYTES:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _block(data: bytes, place: _Place, start: int) -> bytes:
    """Return the contents of a block; `data` begins at `start` of the file. Raises ValueError."""
    first = place.offset - start
    stored = data[first : first + place.size]
    kind, checksum = _TRAILER.unpack_from(data, first + place.size)
    if zlib.crc32(bytes([kind]), zlib.crc32(stored)) != checksum & 0xFFFFFFFF:
        raise ValueError(f"the block at {place.offset} has another checksum")
    if kind == 0:
        return stored
    size, at = read_varint(stored, 0)
    if size > _MOST_BLOCK:
        raise ValueError(f"the block at {place.offset} says that it has {size} bytes")
    content = _decompress(kind, stored[at:], size)
    if len(content) != size:
        raise ValueError(f"the block at {place.offset} has {len(content)} bytes, and says {size}")
    return content


def _decompress(kind: int, data: bytes, size: int) -> bytes:
    """Return the data of a compressed block: by zstd, or by LZ4 behind two lengths."""
    if kind == 1:
        return zstd.ZstdDecompressor().decompress(data, max_length=size)
    if kind == 2:
        out = bytearray(size)
        return bytes(out[: cramjam.lz4.decompress_block_into(data[8:], out)])
    raise ValueError(f"compression {kind} is not supported")


def _entries(block: bytes) -> LookupEntries:
    """Return the values of one block. Raises ValueError."""
    number, kind = _TAIL.unpack_from(block, len(block) - _TAIL.size)
    end = len(block) - _TAIL.size
    if kind == _ALIGNED:
        if number <= 0 or end % number:
            raise ValueError(f"a block of {end} bytes has no entries of {number} bytes")
        starts = np.arange(0, end, number, dtype=np.int64)
    elif kind == _UNALIGNED:
        end -= 4 * number
        if number < 0 or end < 0:
            raise ValueError(f"a block of {len(block)} bytes has no {number} entries")
        starts = np.frombuffer(block, "<i4", number, end).astype(np.int64)
    else:
        raise ValueError(f"a block of kind {kind} is not known")
    data = np.frombuffer(block[:end] + bytes(PADDING), np.uint8)
    if len(starts) == 0:
        return LookupEntries(data, starts, starts)
    if starts[0] != 0 or (np.diff(starts) <= 0).any() or starts[-1] >= end:
        raise ValueError("the entries of a block do not follow each other")
    size, at = read_varints(data, starts)
    at = np.minimum(at + size, end)
    size, at = read_varints(data, at)
    if not np.array_equal(at + size, np.append(starts[1:], end)):
        raise ValueError("an entry of a block ends in another place than the next begins")
    return LookupEntries(data, at, at + size)


def _join(parts: Sequence[LookupEntries]) -> LookupEntries:
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(len(part.data) for part in parts)])
    pairs = list(zip(parts, shifts.tolist(), strict=False))
    return LookupEntries(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.starts + shift for part, shift in pairs]),
        np.concatenate([part.ends + shift for part, shift in pairs]),
    )
