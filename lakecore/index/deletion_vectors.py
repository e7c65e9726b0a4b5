"""This module says which rows of a data file are deleted: it converts index files of deletion vectors
between bytes and values.

Spec: the file begins with the byte 1; vectors follow, at offsets that the index manifest records. Positions
count the rows of the data file as written, from 0. A vector says by its magic which of two layouts it has:
V1 (32-bit positions; the recorded length leaves out the leading size and the checksum) or V2 (64-bit
positions in maps of 2^32, as other lake formats have them; the recorded length is that of everything).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from enum import Enum

from pyroaring import BitMap

from lakecore.errors import CorruptDataError, UnsupportedError, reason
from lakecore.metadata.manifest.index_file import DeletionRange

__all__ = [
    "VECTOR_FRAME",
    "VectorLayout",
    "decode_place",
    "decode_vector",
    "decode_vectors",
    "encode_vector",
    "encode_vectors",
]

_FILE_VERSION = 1
_MAGIC_V1 = struct.pack(">i", 1581511376)
_MAGIC_V2 = struct.pack("<i", 1681511377)
_FRAME = 4
"""The bytes of the size in front of a vector and of the checksum behind it."""
VECTOR_FRAME = 2 * _FRAME
"""A vector can be so much longer than its recorded length."""
_MAP_HEAD = struct.Struct("<qi")
_MAX_POSITION_V1 = 2**31 - 2


class VectorLayout(Enum):
    """It says how new vectors are laid out; V2 is option `deletion-vectors.bitmap64`."""

    V1 = 1
    V2 = 2


def encode_vectors(
    vectors: Mapping[str, BitMap], layout: VectorLayout
) -> tuple[bytes, tuple[DeletionRange, ...]]:
    """Return an index file with the vector of each data file, in order, and the range of each.

    Raises UnsupportedError for a position that V1 cannot hold.
    """
    out = bytearray([_FILE_VERSION])
    ranges = []
    for name, positions in vectors.items():
        data = encode_vector(positions, layout, name)
        length = len(data) if layout is VectorLayout.V2 else len(data) - VECTOR_FRAME
        ranges.append(DeletionRange(name, len(out), length, len(positions)))
        out += data
    return bytes(out), tuple(ranges)


def encode_vector(positions: BitMap, layout: VectorLayout, name: str) -> bytes:
    """Return one vector: size, magic, bitmap, checksum. `name` is that of the data file, for errors."""
    packed = BitMap(positions)
    packed.run_optimize()
    body = packed.serialize()
    if layout is VectorLayout.V2:
        maps = _MAP_HEAD.pack(1, 0) + body if positions else struct.pack("<q", 0)
        payload = _MAGIC_V2 + maps
    elif positions and positions.max() > _MAX_POSITION_V1:
        raise UnsupportedError(
            f"row {positions.max()} of {name} exceeds what a 32-bit deletion vector can hold; set option "
            "deletion-vectors.bitmap64=true"
        )
    else:
        payload = _MAGIC_V1 + body
    return struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def decode_vectors(data: bytes, ranges: Mapping[str, DeletionRange], path: str) -> dict[str, BitMap]:
    """Return the vectors at these ranges of an index file. Raises CorruptDataError naming `path`."""
    if data[:1] != bytes([_FILE_VERSION]):
        raise CorruptDataError(
            path, f"has deletion vectors of version {data[:1].hex()}; this release reads version 01"
        )
    return {
        name: decode_place(data[place.offset : place.offset + place.length + VECTOR_FRAME], place, path)
        for name, place in ranges.items()
    }


def decode_place(data: bytes, place: DeletionRange, path: str) -> BitMap:
    """Return the vector at one range of an index file; `data` begins there and has up to VECTOR_FRAME bytes
    more.

    Raises CorruptDataError naming `path`, also when it deletes other than `place.cardinality` rows.
    """
    if place.offset < 1 or place.length < 0:
        raise CorruptDataError(
            path,
            f"records the deletion vector of {place.data_file} at offset {place.offset} with "
            f"{place.length} bytes, which is not possible",
        )
    vector = decode_vector(data, path, recorded=place.length)
    if place.cardinality is not None and len(vector) != place.cardinality:
        raise CorruptDataError(
            path,
            f"has a deletion vector of {place.data_file} with {len(vector)} rows, but the index manifest "
            f"records {place.cardinality}",
        )
    return vector


def decode_vector(data: bytes, path: str, *, recorded: int | None = None) -> BitMap:
    """Return the vector that `data` begins with. `recorded` is its length in the index manifest.

    Raises CorruptDataError naming `path` for a wrong magic, length or checksum; UnsupportedError for
    positions from 2^32 on.
    """
    size = int.from_bytes(data[:_FRAME], "big", signed=True)
    payload = data[_FRAME : _FRAME + max(size, 0)]
    if size < _FRAME or len(payload) != size or len(data) < size + VECTOR_FRAME:
        raise CorruptDataError(
            path, f"contains a deletion vector of {size} bytes, but only {len(data)} bytes are left"
        )
    magic = payload[:_FRAME]
    if magic not in (_MAGIC_V1, _MAGIC_V2):
        raise CorruptDataError(path, f"does not contain a deletion vector: the magic number is {magic.hex()}")
    if recorded is not None and recorded != (size if magic == _MAGIC_V1 else size + VECTOR_FRAME):
        raise CorruptDataError(
            path, f"contains a deletion vector of {size} bytes, but {recorded} bytes are recorded"
        )
    checksum = data[_FRAME + size : size + VECTOR_FRAME]
    if zlib.crc32(payload) != int.from_bytes(checksum, "big"):
        raise CorruptDataError(path, "contains a deletion vector with a wrong checksum")
    return _bitmap(payload[_FRAME:] if magic == _MAGIC_V1 else _first_map(payload[_FRAME:], path), path)


def _first_map(maps: bytes, path: str) -> bytes | None:
    """Return the bitmap of the positions below 2^32, or None when there is no bitmap."""
    count = int.from_bytes(maps[:8], "little", signed=True)
    if len(maps) < 8 or count < 0:
        raise CorruptDataError(path, "contains a 64-bit deletion vector that is cut off")
    if count == 0:
        return None
    if len(maps) < _MAP_HEAD.size:
        raise CorruptDataError(path, "contains a 64-bit deletion vector that is cut off")
    _, key = _MAP_HEAD.unpack_from(maps)
    if count > 1 or key != 0:
        raise UnsupportedError(
            f"{path}: the deletion vector deletes rows beyond position 4294967295 of a file, which this "
            "release does not support; use another engine"
        )
    return maps[_MAP_HEAD.size :]


def _bitmap(data: bytes | None, path: str) -> BitMap:
    if data is None:
        return BitMap()
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as err:
        raise CorruptDataError(
            path, f"contains a deletion vector without a valid bitmap: {reason(err)}"
        ) from err
