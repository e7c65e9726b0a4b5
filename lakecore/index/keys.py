"""Single values inside index blobs: fixed-width numbers big-endian, text as int32 length and bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.index.distinct import DistinctValues
from lakecore.index.values import decode_numbers, encode_numbers, width_of
from lakecore.types.datatypes import AtomicType

__all__ = ["KeyCodec"]

_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """How values of one type are stored. `width`: bytes of each, None where that varies."""

    kind: AtomicType

    @property
    def width(self) -> int | None:
        return width_of(self.kind)

    def encode(self, distinct: DistinctValues) -> list[bytes]:
        """Each value, in order."""
        width = self.width
        if width is None:
            return [_INT.pack(len(value)) + value for value in distinct.values.to_pylist()]
        joined = encode_numbers(distinct.values, self.kind)
        return [joined[at : at + width] for at in range(0, len(joined), width)]

    def sizes(self, distinct: DistinctValues) -> npt.NDArray[np.int64]:
        """Bytes of each encoded value."""
        if self.width is not None:
            return np.full(len(distinct), self.width, np.int64)
        offsets = np.frombuffer(distinct.values.buffers()[1], "<i8", len(distinct) + 1)
        return np.asarray(np.diff(offsets) + _INT.size, np.int64)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """The value at `at`, and where it ends. Raises IndexError or struct.error at the end of the data."""
        width = self.width
        if width is not None:
            if len(data) - at < width or at < 0:
                raise IndexError("a value that ends after the index")
            stored = np.frombuffer(data, f">i{width}", 1, at)
            return int(decode_numbers(stored, self.kind)[0]), at + width
        (length,) = _INT.unpack_from(data, at)
        end = at + _INT.size + length
        if length < 0 or end > len(data):
            raise IndexError(f"a text of {length} bytes that ends after the index")
        return data[at + _INT.size : end], end
