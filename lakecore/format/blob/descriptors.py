"""This module has the values that stand for blobs elsewhere: references to bytes of a file, and views of a
row of another table.

Layout, little-endian. A reference: version, magic, path (length, UTF-8), offset, length; the first version
has no magic. A view: version, magic, name of the table (length, `database.table`), field id, row id.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

__all__ = [
    "MARK",
    "REFERENCE_MARK",
    "VIEW_MARK",
    "View",
    "decode_reference",
    "decode_view",
    "encode_reference",
    "encode_view",
    "is_old_reference",
    "is_reference",
    "is_view",
]

View: TypeAlias = tuple[str, int, int]
"""This is the target of a view: table, field id, row id."""

_REFERENCE, _REFERENCE_VERSION = 0x424C4F4244455343, 2
_VIEW, _VIEW_VERSION = 0x424C4F4256494557, 1
MARK = slice(1, 9)
"""This is the offset of the mark of a value."""
REFERENCE_MARK, VIEW_MARK = (struct.pack("<q", magic) for magic in (_REFERENCE, _VIEW))

_HEAD = struct.Struct("<bqi")
_OLD_HEAD = struct.Struct("<bi")
_PLACE = struct.Struct("<qq")
_ROW = struct.Struct("<iq")


def is_reference(value: bytes) -> bool:
    """Return whether these bytes are a reference to others."""
    return len(value) >= _HEAD.size + _PLACE.size and struct.unpack_from("<q", value, 1)[0] == _REFERENCE


def is_old_reference(value: bytes) -> bool:
    """Return whether the bytes may be a reference of the first version, which nothing marks."""
    if len(value) < _OLD_HEAD.size + _PLACE.size:
        return False
    version, length = _OLD_HEAD.unpack_from(value)
    return bool(version == 1 and length == len(value) - _OLD_HEAD.size - _PLACE.size)


def encode_reference(path: str, offset: int, length: int) -> bytes:
    """Return a reference to bytes of a file."""
    uri = (f"file:{path}" if path.startswith("/") else path).encode()
    return _HEAD.pack(_REFERENCE_VERSION, _REFERENCE, len(uri)) + uri + _PLACE.pack(offset, length)


def decode_reference(value: bytes) -> tuple[str, int, int] | None:
    """Return the path, offset and length (-1: up to the end) of bytes that are a reference, or None for a
    damaged one.
    """
    version, _, length = _HEAD.unpack_from(value)
    if version > _REFERENCE_VERSION or not 0 <= length <= len(value) - _HEAD.size - _PLACE.size:
        return None
    uri = value[_HEAD.size : _HEAD.size + length].decode(errors="replace")
    offset, size = _PLACE.unpack_from(value, _HEAD.size + length)
    return None if offset < 0 else (uri, offset, size)


def encode_view(table: str, field_id: int, row_id: int) -> bytes:
    """Return the value of a view column. `table` is `database.table`."""
    name = table.encode()
    return _HEAD.pack(_VIEW_VERSION, _VIEW, len(name)) + name + _ROW.pack(field_id, row_id)


def is_view(value: bytes) -> bool:
    """Return whether these bytes name a row of a table in a database."""
    view = decode_view(value)
    return view is not None and all(view[0].partition(".")[::2])


def decode_view(value: bytes) -> View | None:
    """Return the target of a view, or None for bytes that are no view."""
    if len(value) < _HEAD.size + _ROW.size:
        return None
    version, magic, length = _HEAD.unpack_from(value)
    if (version, magic) != (_VIEW_VERSION, _VIEW) or length != len(value) - _HEAD.size - _ROW.size:
        return None
    name = value[_HEAD.size : _HEAD.size + length].decode(errors="replace")
    field_id, row_id = _ROW.unpack_from(value, _HEAD.size + length)
    return name, field_id, row_id
