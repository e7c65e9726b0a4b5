"""This module builds all file indexes of one data file while its rows are written; every row counts, retract
rows too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import UnsupportedError
from lakecore.index.bitmap import BitmapRules, BitmapWriter
from lakecore.index.bloom_filter import BloomFilterRules, BloomFilterWriter
from lakecore.index.bsi import BsiWriter
from lakecore.index.container import Blobs, encode_container
from lakecore.index.definition import IndexSpec, Rules
from lakecore.index.range_bitmap import RangeBitmapRules, RangeBitmapWriter
from lakecore.types.datatypes import AtomicType

__all__ = ["FileIndexBuilder"]


class _Writer(Protocol):
    def add(self, array: pa.Array) -> None: ...

    def encode(self) -> bytes | None: ...


class FileIndexBuilder:
    """It builds the file indexes `specs`, which name columns as the file does. For its memory see the
    writers.
    """

    def __init__(self, specs: Sequence[IndexSpec]) -> None:
        self._indexes = [(spec, _writer(spec.data_type, spec.rules)) for spec in specs]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the file; columns are found by name.

        Raises UnsupportedError for a value that an index cannot hold.
        """
        for spec, writer in self._indexes:
            array = batch.column(spec.column)
            writer.add(array if spec.key is None else _values_of(array, spec.key))

    def blobs(self) -> Blobs:
        """Index name -> type -> bytes. Raises InvalidOptionError when a value does not fit its index,
        UnsupportedError when an index is too large for the format.
        """
        out: dict[str, dict[str, bytes | None]] = {}
        for spec, writer in self._indexes:
            try:
                out.setdefault(spec.name, {})[spec.type.value] = writer.encode()
            except (struct.error, OverflowError) as err:
                raise UnsupportedError(
                    f"index {spec.type.value} of column {spec.name}: the index exceeds 2 GB ({err}); "
                    "write smaller files, or use another index type"
                ) from err
        return out

    def encode(self) -> bytes:
        """Return the container of all indexes."""
        return encode_container(self.blobs())


def _writer(data_type: AtomicType, rules: Rules) -> _Writer:
    match rules:
        case BloomFilterRules():
            return BloomFilterWriter(data_type, rules)
        case BitmapRules():
            return BitmapWriter(data_type, rules)
        case RangeBitmapRules():
            return RangeBitmapWriter(data_type, rules)
        case _:
            return BsiWriter(data_type)


def _values_of(maps: pa.MapArray, key: str) -> pa.Array:
    """Return the value of `key` in the map of each row; it is null where the map or the key is missing."""
    offsets = maps.offsets.to_numpy()
    low, high = int(offsets[0]), int(offsets[-1])
    lanes = np.flatnonzero(
        pc.equal(maps.keys.slice(low, high - low), key).to_numpy(zero_copy_only=False).astype(bool)
    )
    rows = np.searchsorted(offsets - low, lanes, side="right") - 1
    places = np.full(len(maps), -1, np.int64)
    places[rows] = lanes + low
    missing = places < 0
    if maps.null_count:
        missing |= np.asarray(maps.is_null())
    return maps.items.take(pa.array(places, mask=missing))
