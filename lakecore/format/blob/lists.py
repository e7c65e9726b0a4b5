"""This module stores lists and maps of blobs, in one record of a blob file each.

Layout, little-endian: a magic, a version, the number of elements (int32); for a map the bytes of its keys;
the bytes of the blobs; for a map the lengths of its keys; the lengths of the blobs (both as `blob_file` codes
them); then how many bytes each of these indexes took (int32). Length -1 is a null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.blob.file import NULL, decode_lengths, encode_lengths
from lakecore.types.datatypes import AtomicType, DataType, MapType, TypeRoot

__all__ = ["BlobList", "decode_blobs", "encode_blobs", "key_codec"]

_HEAD = struct.Struct("<ibi")
_LENGTH = struct.Struct("<i")
_LIST_MAGIC = 1094861634
_MAP_MAGIC = 0x4D424342
_VERSION = 1
_NUMBERS = {TypeRoot.TINYINT: "<b", TypeRoot.SMALLINT: "<h", TypeRoot.INT: "<i", TypeRoot.BIGINT: "<q"}
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)


@dataclass(frozen=True, slots=True)
class BlobList:
    """These are the places of the blobs of one record: (offset in the record, size), or None for a null.
    `keys` are those of a map.
    """

    places: tuple[tuple[int, int] | None, ...]
    keys: tuple[Any, ...] = ()


def key_codec(data_type: DataType) -> str | None:
    """Return how keys of a map are packed, or None for UTF-8. Raises UnsupportedError for types that cannot
    be keys.
    """
    if isinstance(data_type, AtomicType) and data_type.root in _TEXT:
        return None
    if isinstance(data_type, AtomicType) and data_type.root in _NUMBERS:
        return _NUMBERS[data_type.root]
    raise UnsupportedError(
        f"maps of {data_type} to BLOB are not supported: the keys must be integers or strings"
    )


def decode_blobs(record: bytes, data_type: DataType, path: str) -> BlobList:
    """Return the places of the blobs of a record. Raises CorruptDataError naming `path`, UnsupportedError for
    a null among the keys.
    """
    mapped = isinstance(data_type, MapType)
    try:
        magic, version, count = _HEAD.unpack_from(record)
        if (magic, version) != (_MAP_MAGIC if mapped else _LIST_MAGIC, _VERSION):
            raise ValueError(f"its magic number is {magic} and its version is {version}")
        stop = len(record) - _LENGTH.size * (2 if mapped else 1)
        sizes = [_LENGTH.unpack_from(record, at)[0] for at in range(stop, len(record), _LENGTH.size)]
        indexes = []
        for size in reversed(sizes):
            if not 0 <= size <= stop - _HEAD.size:
                raise ValueError(f"its index claims {size} bytes")
            indexes.append(decode_lengths(record[stop - size : stop]).tolist())
            stop -= size
        if any(len(index) != count for index in indexes):
            raise ValueError(f"its indexes do not have {count} elements")
        at = _HEAD.size
        keys, at = (
            _keys(record, indexes[1], data_type.key, at) if isinstance(data_type, MapType) else ((), at)
        )
        places = []
        for length in indexes[0]:
            places.append(None if length == NULL else (at, length))
            at += 0 if length == NULL else length
        if at != stop or any(length < NULL for length in indexes[0]):
            raise ValueError("its lengths do not add up")
    except (ValueError, struct.error, IndexError) as err:
        raise CorruptDataError(path, f"contains a list of blobs that cannot be decoded: {err}") from err
    return BlobList(tuple(places), keys)


def _keys(record: bytes, lengths: Sequence[int], data_type: DataType, at: int) -> tuple[tuple[Any, ...], int]:
    codec = key_codec(data_type)
    keys: list[Any] = []
    for length in lengths:
        if length == NULL:
            raise UnsupportedError(
                "a map of blobs has null among its keys, which Arrow does not support; remove that key with "
                "another engine"
            )
        part = record[at : at + length]
        if len(part) != length:
            raise ValueError(f"a key of {length} bytes is cut off")
        keys.append(part.decode() if codec is None else struct.unpack(codec, part)[0])
        at += length
    return tuple(keys), at


def encode_blobs(value: Sequence[Any], data_type: DataType) -> bytes:
    """Return the record of one list (of bytes and None), or of one map (pairs of a key and bytes or None)."""
    if not isinstance(data_type, MapType):
        index = encode_lengths([NULL if blob is None else len(blob) for blob in value])
        parts = [_HEAD.pack(_LIST_MAGIC, _VERSION, len(value)), *filter(None, value), index]
        return b"".join((*parts, _LENGTH.pack(len(index))))
    codec = key_codec(data_type.key)
    keys = [key.encode() if codec is None else struct.pack(codec, key) for key, _ in value]
    blobs = [blob for _, blob in value]
    first = encode_lengths([len(key) for key in keys])
    second = encode_lengths([NULL if blob is None else len(blob) for blob in blobs])
    parts = [_HEAD.pack(_MAP_MAGIC, _VERSION, len(value)), *keys, *filter(None, blobs), first, second]
    return b"".join((*parts, _LENGTH.pack(len(first)), _LENGTH.pack(len(second))))
