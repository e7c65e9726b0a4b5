"""This module decodes all page locations of a parquet offset index at once. No IO.

An offset index is one thrift list of structs (offset, compressed size, first row) without optional fields.
Their headers are bytes below 128, so that headers and numbers alike can be read as one sequence of
variable-length integers, seven for each page. Anything else is left to the decoder of any thrift struct.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakecore.format.parquet.thrift_compact import decode_struct, encode_struct
from lakecore.format.parquet.thrift_spans import list_of, number

__all__ = ["PageLocations", "PagePlace", "encoded_pages", "page_list", "page_locations"]

PageLocations = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""These are the page locations: offsets in the file, sizes in bytes, first rows within the row group."""

PagePlace = tuple[int, int, int]
"""This is the place of a page: its offset in the file, its bytes, and its first row within the row group."""

# field ids of parquet.thrift
_LOCATIONS = 1
_OFFSET, _SIZE, _ROW = 1, 2, 3

_LIST_FIELD = 0x19
"""The first field is a list."""
_STRUCTS, _LONG_LIST = 0x0C, 0xFC
_HEADERS = (0x16, 0x15, 0x16, 0x00)
"""Field 1 is an I64, field 2 an I32, field 3 an I64, and the struct ends."""
_WIDTH = 7
_FEW_BYTES = 96
"""Shorter lists are decoded faster one struct after the other."""
_LONGEST = 9
"""Bytes of the longest number that 63 bits can hold."""


def page_locations(data: bytes) -> PageLocations:
    """Return the pages of one column chunk in file order. Raises ValueError where the bytes are no offset
    index.

    Cost: a few numpy steps for all pages where they have the usual form, else some microseconds a page.
    """
    located = _usual(data) if len(data) >= _FEW_BYTES else None
    if located is not None:
        return located
    index = decode_struct(data)
    locations: list[Any] = index[_LOCATIONS].value.values
    offsets, sizes, rows = (
        np.array([int(location[field].value) for location in locations], np.int64)
        for field in (_OFFSET, _SIZE, _ROW)
    )
    return offsets, sizes, rows


def page_list(data: bytes) -> tuple[list[PagePlace], bytes]:
    """Return the pages of one column chunk in file order, and the bytes of the offset index behind them.
    Raises ValueError, IndexError where the bytes are no offset index.

    It is quicker than `page_locations` for a few pages.
    """
    at, count = _list_head(data)
    pages: list[PagePlace] = []
    for _ in range(count):
        numbers = []
        for head in _HEADERS[:-1]:
            if data[at] != head:
                return _any_list(data)
            value = data[at + 1]
            at += 2
            if value > 127:
                value, at = _long_number(data, at - 1)
            numbers.append((value >> 1) ^ -(value & 1))
        if data[at] != 0:
            return _any_list(data)
        at += 1
        pages.append((numbers[0], numbers[1], numbers[2]))
    return (pages, data[at:]) if pages else _any_list(data)


def encoded_pages(pages: list[PagePlace], rest: bytes) -> bytes:
    """Return the bytes of an offset index of `pages`, and of what follows them."""
    offset, size, row = (bytes([head]) for head in _HEADERS[:-1])
    structs = [
        offset + number(place) + size + number(length) + row + number(first) + b"\0"
        for place, length, first in pages
    ]
    return bytes([_LIST_FIELD]) + list_of(structs) + rest


def _any_list(data: bytes) -> tuple[list[PagePlace], bytes]:
    """Return what `page_list` does for structs in any form."""
    index = decode_struct(data)
    pages = [
        (int(one[_OFFSET].value), int(one[_SIZE].value), int(one[_ROW].value))
        for one in index[_LOCATIONS].value.values
    ]
    # fields are numbered from the one before, which the list was
    rest = encode_struct({field - _LOCATIONS: value for field, value in index.items() if field != _LOCATIONS})
    return pages, rest


def _long_number(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of several bytes, and where it ends."""
    value = shift = 0
    for byte in data[at : at + _LONGEST + 1]:
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number of an offset index does not end")


def _usual(data: bytes) -> PageLocations | None:
    """Return the pages, or None if the list has another form or is cut off."""
    start, count = _list_head(data)
    if count == 0:
        return None
    words = np.frombuffer(data, np.uint8)[start:]
    ends = np.flatnonzero(words < 128)[: count * _WIDTH]
    if len(ends) < count * _WIDTH:
        return None
    numbers = _numbers(words[: int(ends[-1]) + 1], ends)
    if numbers is None:
        return None
    table = numbers.reshape(count, _WIDTH)
    if (table[:, ::2] != np.array(_HEADERS, np.uint64)).any():
        return None
    signed = (table[:, 1::2] >> np.uint64(1)).astype(np.int64) ^ -(table[:, 1::2] & np.uint64(1)).astype(
        np.int64
    )
    return signed[:, 0].copy(), signed[:, 1].copy(), signed[:, 2].copy()


def _list_head(data: bytes) -> tuple[int, int]:
    """Return where the first struct begins, and how many there are; 0 if this is no list of structs."""
    if len(data) < 2 or data[0] != _LIST_FIELD:
        return 0, 0
    head = data[1]
    if head != _LONG_LIST:
        return 2, head >> 4 if head & 15 == _STRUCTS else 0
    count = shift = 0
    for place, byte in enumerate(data[2 : 2 + _LONGEST]):
        count |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return 3 + place, count
    return 0, 0


def _numbers(words: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """Return the variable-length integers that end at `ends`, or None if one is longer than 63 bits."""
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if int(lengths.max()) > _LONGEST:
        return None
    places = (np.arange(len(words)) - np.repeat(starts, lengths)).astype(np.uint64)
    parts = (words & 127).astype(np.uint64) << (places * np.uint64(7))
    return np.add.reduceat(parts, starts)
