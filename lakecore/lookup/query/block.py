"""This module has a block of a lookup file: consecutive rows of a data file in key order, as bytes and in
memory.

The bytes are an Arrow IPC stream with one batch, which may be compressed. They have a checksum: what is read
from a local disk is compared with it before it is decoded.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.lookup.query.packed_keys import KeyColumns, Packed, Widths
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.types.datatypes import RowType

__all__ = [
    "BLOCK_ROWS",
    "FILTERED_KIND",
    "ROW_NAME",
    "Block",
    "BlockPlace",
    "DamagedCopyError",
    "NotInMemoryError",
    "decode",
    "encode",
]

Ints = np.ndarray[Any, Any]

FILTERED_KIND = 5
"""This kind marks a row that a query filters out: like a row that retracts it is odd."""
BLOCK_ROWS = 4096
"""A block has at most so many rows: reading one costs some 0.3 ms, and a lookup of many keys some 50 us."""


ROW_NAME = "_ROW"
"""This column has whole rows in the format of BinaryRow, without their number of fields."""


class DamagedCopyError(Exception):
    """A local copy is not what was written. Its argument is the copy. The error never leaves the package: the
    copy is made again.
    """


class NotInMemoryError(Exception):
    """A lookup in memory would have to read. The error never leaves the package."""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """This is where the bytes of a block are in the lookup file, and their checksum."""

    offset: int
    length: int
    checksum: int


def encode(batch: pa.RecordBatch, codec: str | None) -> bytes:
    """Return a batch as bytes, compressed by `codec`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        out.write_batch(batch)
    return bytes(sink.getvalue())


def decode(data: bytes, place: BlockPlace) -> pa.RecordBatch:
    """Return the batch of these bytes. Raises DamagedCopyError when they are not those that were written."""
    if len(data) != place.length or zlib.crc32(data) != place.checksum:
        raise DamagedCopyError(place)
    with pa.ipc.open_stream(data) as source:
        return source.read_next_batch()


class Block:
    """It is a block in memory, ready to be searched."""

    def __init__(
        self, batch: pa.RecordBatch, keys: tuple[str, ...], key_type: RowType, widths: Widths
    ) -> None:
        """Take a batch with the key columns. `widths` are those of all packed keys of the file."""
        self.batch = batch
        self._keys = KeyColumns([batch.column(name) for name in keys], key_type)
        self._widths = widths
        self._places = {name: place for place, name in enumerate(batch.schema.names)}

    @cached_property
    def packed(self) -> Packed:
        """Return the packed keys of the rows."""
        return self._keys.packed(self._widths)

    @cached_property
    def _integers(self) -> memoryview | None:
        """Return the packed keys if they are integers, which are searched in a third of the time."""
        return self.packed.data if self.packed.dtype == np.int64 else None

    @cached_property
    def values(self) -> list[tuple[Any, ...]]:
        """Return the keys of the rows as Python values, for keys that are too wide to be packed."""
        return self._keys.values()

    @cached_property
    def kinds(self) -> Ints | None:
        """Return the kinds of the rows; None if all of them insert."""
        return self._numbers(KIND_NAME)

    @cached_property
    def sequences(self) -> Ints | None:
        """Return the sequence numbers of the rows; None if they do not matter."""
        return self._numbers(SEQUENCE_NAME)

    @property
    def size(self) -> int:
        """Return about how many bytes it takes: those of the batch, and of the packed keys once more."""
        width = 8 * len(self._keys.columns) + sum(self._widths)
        rows: int = self.batch.num_rows
        return int(self.batch.nbytes) + width * rows

    def row_values(self, row: int, columns: tuple[str, ...]) -> dict[str, object]:
        """Return the Python values of one row."""
        column, at = self.batch.column, self._places
        return {name: column(at[name])[row].as_py() for name in columns}

    def row_bytes(self, row: int) -> bytes:
        """Return one row as bytes, of a block that has whole rows."""
        offsets, data = self._serialize
        return bytes(data[offsets.item(row) : offsets.item(row + 1)])

    @cached_property
    def _serialize(self) -> tuple[Ints, memoryview]:
        column = self.batch.column(self._places[ROW_NAME])
        offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
        return offsets, memoryview(column.buffers()[2] or b"")

    def row(self, key: Any) -> int:
        """Return the row of one packed key, given as a Python value; -1 if it has none."""
        packed, integers = self.packed, self._integers
        if integers is None:
            at = bisect_left(range(len(packed)), key, key=packed.item)
        else:
            at = bisect_left(integers, key)
        return at if at < len(packed) and packed.item(at) == key else -1

    def rows(self, keys: Packed) -> Ints:
        """Return the row of each packed key; -1 for those that it does not have."""
        have = self.packed
        places = np.minimum(np.searchsorted(have, keys), len(have) - 1)
        return np.where(have[places] == keys, places, -1)

    def row_of_value(self, key: tuple[Any, ...]) -> int:
        """Return the row of a key of Python values; -1 if it has none."""
        at = bisect_left(self.values, key)
        return at if at < len(self.values) and self.values[at] == key else -1

    def _numbers(self, name: str) -> Ints | None:
        return self.batch.column(name).to_numpy() if name in self._places else None
