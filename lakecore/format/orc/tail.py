"""This module adds keys and values to the footer of a written ORC file, which pyarrow cannot do.

Spec (ORC): a file ends with the footer, the postscript and a byte that has the postscript's length. Both are
protobuf messages, so that what is appended to a footer is part of it. A compressed footer is a row of pieces:
three bytes (twice the length; odd: not compressed), then the piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

__all__ = ["with_footer_metadata"]

_VARINT, _BYTES = 0, 2
_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE = 1, 2, 3
_USER_METADATA, _NAME, _VALUE = 5, 1, 2
_DEFAULT_BLOCK = 256 << 10
_ORIGINAL = 1


def with_footer_metadata(end: bytes, notes: Mapping[bytes, bytes]) -> bytes:
    """Return the end of a file with keys and values added to its footer. `end` must hold all of its
    postscript.

    Raises ValueError, IndexError if it is not the end of an ORC file.
    """
    length = end[-1]
    postscript = end[-1 - length : -1]
    if len(postscript) != length:
        raise ValueError(f"the ORC postscript claims {length} bytes, but {len(end)} are there")
    parts = list(_fields(postscript))
    numbers = {key: _number(raw, 0)[0] for key, kind, raw in parts if kind == _VARINT}
    message = b"".join(_item(key, value) for key, value in notes.items())
    added = message
    if numbers.get(_COMPRESSION):
        added = _pieces(message, numbers.get(_BLOCK_SIZE, _DEFAULT_BLOCK))
    footer = _varint(numbers[_FOOTER_LENGTH] + len(added))
    field_bytes = b"".join(
        _varint(key << 3 | kind) + (footer if key == _FOOTER_LENGTH else raw) for key, kind, raw in parts
    )
    return end[: -1 - length] + added + field_bytes + bytes([len(field_bytes)])


def _pieces(data: bytes, block: int) -> bytes:
    parts = (data[at : at + block] for at in range(0, len(data), block))
    return b"".join((len(part) << 1 | _ORIGINAL).to_bytes(3, "little") + part for part in parts)


def _item(key: bytes, value: bytes) -> bytes:
    body = b"".join(
        _varint(number << 3 | _BYTES) + _varint(len(part)) + part
        for number, part in ((_NAME, key), (_VALUE, value))
    )
    return _varint(_USER_METADATA << 3 | _BYTES) + _varint(len(body)) + body


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and encoded value of each field; a postscript has only numbers and bytes."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        start = at
        value, at = _number(message, at)
        if tag & 7 == _BYTES:
            at += value
        elif tag & 7 != _VARINT:
            raise ValueError(f"the ORC postscript has a field of wire type {tag & 7}")
        yield tag >> 3, tag & 7, message[start:at]


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])
