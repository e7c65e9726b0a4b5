"""This module finds, by numpy, where the parts of the variant values of many rows are. See `variant` for
their form.

Positions count bytes of one buffer. Bytes that are no variants give positions that make no sense, never an
error: callers check what they rely on (`Parts.exact`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass

__all__ = ["Ints", "Parts", "VariantBytes", "containers", "copy_ranges", "ragged", "runs", "widths"]

Ints = np.ndarray[Any, Any]
_PAD = 32
_PRIMITIVE, _SHORT, _OBJECT, _ARRAY = range(4)
_BINARY, _STRING = 15, 16
_SIZES = np.full(64, -1, np.int64)
_SIZES[:21] = [0, 0, 0, 1, 2, 4, 8, 8, 5, 9, 17, 4, 8, 8, 4, 0, 0, 8, 8, 8, 16]
"""The number of bytes after the first of a primitive type; values of types 15 and 16 record it themselves."""


def runs(counts: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges of that many items, the range of each item and its number in it."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def widths(largest: Ints) -> Ints:
    """Return the number of bytes that a number needs, at least one."""
    return 1 + (largest > 0xFF).astype(np.int64) + (largest > 0xFFFF) + (largest > 0xFFFFFF)


def copy_ranges(target: Ints, to: Ints, source: Ints, start: Ints, size: Ints) -> None:
    """Copy ranges of bytes. Memory: two indices for each byte."""
    _, number = runs(size)
    target[np.repeat(to, size) + number] = source[np.repeat(start, size) + number]


def ragged(data: Ints, sizes: Ints, present: Ints) -> pa.Array:
    """Return consecutive bytes as a binary array; rows that are not present are null and have size 0."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def containers(counts: Ints, ids: Ints | None, data: Ints, start: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Return the bytes of objects of so many fields each, or of arrays (`ids` None), and where each ends,
    counted from 0.

    The parts are given one after another, fields in the order of their names.
    """
    owner, number = runs(counts)
    ends = np.concatenate([[0], np.cumsum(size)])
    last = np.cumsum(counts)
    total = ends[last] - ends[last - counts]
    offset = ends[:-1] - ends[last - counts][owner]
    largest = np.zeros(len(counts), np.int64)
    if ids is not None:
        np.maximum.at(largest, owner, ids)
    id_width = np.zeros(len(counts), np.int64) if ids is None else widths(largest)
    width = widths(total)
    large = (counts > 255).astype(np.int64)
    head = 2 + 3 * large
    begin = head + counts * id_width + (counts + 1) * width
    bounds = np.concatenate([[0], np.cumsum(begin + total)])
    at = bounds[:-1]
    out = np.zeros(int(bounds[-1]), np.uint8)
    shape = (width - 1) | (large << 2 if ids is None else (id_width - 1) << 2 | large << 4)
    out[at] = (_ARRAY if ids is None else _OBJECT) | shape << 2
    _put(out, at + 1, counts, head - 1)
    if ids is not None:
        _put(out, (at + head)[owner] + number * id_width[owner], ids, id_width[owner])
    offsets = at + head + counts * id_width
    _put(out, offsets[owner] + number * width[owner], offset, width[owner])
    _put(out, offsets + counts * width, total, width)
    copy_ranges(out, (at + begin)[owner] + offset, data, start, size)
    return out, bounds


def _put(out: Ints, at: Ints, numbers: Ints, width: Ints) -> None:
    for byte in range(4):
        some = width > byte
        out[at[some] + byte] = numbers[some] >> 8 * byte & 0xFF


@dataclass(frozen=True, slots=True)
class Parts:
    """These are fields of objects, or elements of arrays, one after another. `owner` is the index of the
    object or array; `ids` are the keys of fields.

    `exact` tells, for each owner, whether its bytes are what `object_bytes` or `array_bytes` would make of
    its parts (but for the order of fields), and all parts are in it.
    """

    owner: Ints
    start: Ints
    size: Ints
    ids: Ints
    exact: Ints


class VariantBytes:
    """This buffer has the bytes of many values."""

    def __init__(self, data: Ints) -> None:
        self.data = np.concatenate([data, np.zeros(_PAD, np.uint8)])
        self._end = len(data)

    def basic(self, at: Ints) -> tuple[Ints, Ints]:
        """Return the basic type and the header of values."""
        first = self.data[at]
        return first & 3, first >> 2

    def words(self, at: Ints) -> Ints:
        """Return the eight bytes from each `at` as a signed number."""
        cells = self.data[at[:, None] + np.arange(8)]
        words: Ints = np.ascontiguousarray(cells).view("<i8").ravel()
        return words

    def sizes(self, at: Ints) -> Ints:
        """Return the number of bytes of the values at `at`; the result is meaningless where there is no
        value.
        """
        at = self._inside(at)
        basic, header = self.basic(at)
        sizes = 1 + np.where(basic == _SHORT, header, _SIZES[header])
        has_length = (basic == _PRIMITIVE) & ((header == _BINARY) | (header == _STRING))
        sizes = np.where(has_length, 5 + self.number(at + 1, 4), sizes)
        nested = np.flatnonzero(basic >= _OBJECT)
        if len(nested):
            sizes[nested] = self._nested_sizes(at[nested])
        return sizes

    def number(self, at: Ints, width: Ints | int) -> Ints:
        """Return numbers of 1 to 4 bytes."""
        at = self._inside(at)
        value = self.data[at].astype(np.int64)
        for byte in range(1, 4):
            value |= self.data[at + byte].astype(np.int64) << 8 * byte
        number: Ints = value & ((np.int64(1) << 8 * np.asarray(width, np.int64)) - 1)
        return number

    def fields(self, at: Ints, end: Ints) -> Parts:
        """Return the fields of the objects at `at`, which end at `end`."""
        return self._parts(at, end, objects=True)

    def elements(self, at: Ints, end: Ints) -> Parts:
        """Return the elements of the arrays at `at`, which end at `end`."""
        return self._parts(at, end, objects=False)

    def _inside(self, at: Ints) -> Ints:
        return np.clip(at, 0, self._end)

    def _layout(self, at: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return whether the containers are large, the widths of ids and offsets, the number of parts, and
        where the ids begin.
        """
        basic, header = self.basic(at)
        objects = basic == _OBJECT
        large = header >> np.where(objects, 4, 2) & 1
        id_width = np.where(objects, (header >> 2 & 3) + 1, 0).astype(np.int64)
        width = (header & 3).astype(np.int64) + 1
        head = 1 + np.where(large, 4, 1)
        count = self.number(at + 1, head - 1)
        return large, id_width, width, count, at + head

    def _nested_sizes(self, at: Ints) -> Ints:
        _, id_width, width, count, ids = self._layout(at)
        last = ids + count * (id_width + width)
        sizes: Ints = last + width + self.number(last, width) - at
        return sizes

    def _parts(self, at: Ints, end: Ints, *, objects: bool) -> Parts:
        large, id_width, width, count, ids = self._layout(at)
        offsets = ids + count * id_width
        first = offsets + (count + 1) * width
        spare = 7 if objects else 5  # bits of the first byte from there on mean nothing
        exact = (first <= end) & (self.data[at] >> spare == 0)
        count = np.where(exact, count, 0)
        owner, number = runs(count)
        offset = self.number(offsets[owner] + number * width[owner], width[owner])
        total = self.number(offsets + count * width, width)
        after = np.append(offset[1:], 0)
        last = number == count[owner] - 1
        after[last] = total[owner[last]]
        size = after - offset
        start = first[owner] + offset
        wrong = (size <= 0) | (start + size > end[owner]) | (self.sizes(start) != size)
        wrong |= (number == 0) & (offset != 0)
        keys = self.number(ids[owner] + number * id_width[owner], id_width[owner]) if objects else offset
        exact &= np.bincount(owner, wrong, len(at)) == 0
        exact &= (first + total == end) & (width == widths(total)) & ((large == 1) == (count > 255))
        exact &= (count > 0) | (total == 0)
        if objects:
            largest = np.zeros(len(at), np.int64)
            np.maximum.at(largest, owner, keys)
            exact &= id_width == widths(largest)
        return Parts(owner, start, size, keys, exact)
