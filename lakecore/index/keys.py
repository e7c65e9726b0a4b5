"""This module encodes single values inside index blobs: numbers of fixed width are big-endian, text is an
int32 length and bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.index.distinct import DistinctValues
from lakecore.index.values import decode_numbers, encode_numbers, width_of
from lakecore.types.datatypes import AtomicType

__all__ = ["KeyCodec", "bytes_of", "fixed_binary", "joined_pairs", "offsets_of"]

_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """It says how values of one type are stored. `width`: bytes of each, None where that varies."""

    data_type: AtomicType

    @property
    def width(self) -> int | None:
        return width_of(self.data_type)

    def encode(self, distinct: DistinctValues) -> pa.Array:
        """Return each value, in order, as large binary."""
        width = self.width
        if width is not None:
            return fixed_binary(encode_numbers(distinct.values, self.data_type), width)
        sizes = fixed_binary(np.diff(offsets_of(distinct.values)).astype(">i4").tobytes(), _INT.size)
        return joined_pairs(sizes, distinct.values)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """Return the value at `at`, and its end. Raises IndexError or struct.error at the end of the data."""
        width = self.width
        if width is not None:
            if len(data) - at < width or at < 0:
                raise IndexError("a value ends after the index")
            stored = np.frombuffer(data, f">i{width}", 1, at)
            return int(decode_numbers(stored, self.data_type)[0]), at + width
        (length,) = _INT.unpack_from(data, at)
        end = at + _INT.size + length
        if length < 0 or end > len(data):
            raise IndexError(f"a string of {length} bytes ends after the index")
        return data[at + _INT.size : end], end


def fixed_binary(data: bytes, width: int) -> pa.Array:
    """Return pieces of `width` bytes as large binary, without a copy."""
    count = len(data) // width
    offsets = pa.py_buffer(np.arange(0, len(data) + 1, width, dtype=np.int64))
    return pa.Array.from_buffers(pa.large_binary(), count, [None, offsets, pa.py_buffer(data)])


def joined_pairs(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return each value of `first` followed by that of `second`."""
    return pc.binary_join_element_wise(first, second, pa.scalar(b"", pa.large_binary()))


def offsets_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the offset of each value of a large binary array, and the end of the last one."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], "<i8", len(values) + 1, 8 * values.offset)


def bytes_of(values: pa.Array, first: int = 0, end: int | None = None) -> bytes:
    """Return the bytes of the values from `first` up to `end`, joined. `values` is large binary without
    nulls.
    """
    offsets = offsets_of(values)
    start, stop = int(offsets[first]), int(offsets[len(values) if end is None else end])
    return values.buffers()[2].slice(start, stop - start).to_pybytes() if stop > start else b""
