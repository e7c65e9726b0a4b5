"""This module reads and writes what the footer of a file records of a MAP column in the layout
shared-shredding.

Spec: metadata of the column in the Arrow schema of the file: the ids of its keys (JSON, packed, as text of
ISO 8859-1), which value columns each id was in, the ids of the overflow, the number of value columns.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping

import cramjam
from backports import zstd

__all__ = [
    "COLUMN",
    "LAYOUT",
    "MAPPING",
    "MAX_NAMES",
    "OVERFLOW",
    "PACKED",
    "PREFIX",
    "SHARED",
    "VERSION",
    "field_metadata",
    "unpacked",
]

LAYOUT, SHARED = "paimon.map.storage-layout", "shared-shredding"
PREFIX = "paimon.map.shared-shredding."
VERSION = "1"
MAPPING, COLUMN, OVERFLOW = "__field_mapping", "__col_", "__overflow"
MAX_NAMES = 1 << 26
"""Bytes that the names of the keys of one column may take: damage must not ask for memory."""

_LZ4_HEADER = struct.Struct("<ii")


def unpacked(codec: str, packed: bytes, size: int) -> bytes:
    """Return the JSON of the keys, of `size` bytes. Raises KeyError for an unknown codec, ValueError."""
    return _UNPACK[codec](packed, size)


def field_metadata(
    ids: Mapping[str, int],
    columns_of: Mapping[int, set[int]],
    overflow: set[int],
    *,
    columns: int,
    widest: int,
    codec: str,
) -> dict[str, str]:
    """Return the metadata of a column of which all rows are stored. `widest` is the number of keys of the row
    that has most.
    """
    ordered = {name: ids[name] for name in sorted(ids, key=lambda name: name.encode("utf-16-be"))}
    names = json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()
    places = {str(number): sorted(columns_of[number]) for number in sorted(columns_of)}
    return {
        LAYOUT: SHARED,
        PREFIX + "version": VERSION,
        PREFIX + "field-dict-compression": codec,
        PREFIX + "field-dict-original-size": str(len(names)),
        PREFIX + "field-dict": _PACK[codec](names).decode("latin-1"),
        PREFIX + "field-columns": json.dumps(places, separators=(",", ":")),
        PREFIX + "overflow-set": json.dumps(sorted(overflow), separators=(",", ":")),
        PREFIX + "num-columns": str(columns),
        PREFIX + "max-row-width": str(widest),
    }


def _unzstd(packed: bytes, size: int) -> bytes:
    return zstd.ZstdDecompressor().decompress(packed, max_length=size)


def _unlz4(packed: bytes, size: int) -> bytes:
    length, raw = _LZ4_HEADER.unpack_from(packed)
    if raw != size or length != len(packed) - _LZ4_HEADER.size:
        raise ValueError("the keys of a column are cut off")
    return bytes(cramjam.lz4.decompress_block(packed[_LZ4_HEADER.size :], output_len=size))


def _lz4(data: bytes) -> bytes:
    body = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return _LZ4_HEADER.pack(len(body), len(data)) + body


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "none": lambda packed, _size: packed,
    "zstd": _unzstd,
    "lz4": _unlz4,
}
_PACK: Mapping[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "zstd": lambda data: zstd.compress(data, level=1),
    "lz4": _lz4,
}
PACKED = frozenset(_PACK)
"""These are the codecs of data files that the layout supports (rule of the format)."""
