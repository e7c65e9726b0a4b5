"""This module writes to tables whose keys may move between partitions: locates every key, in bounded
memory.

Before the first row every live key of the table is read: a scan of the key columns. Up to 4 million keys stay
in memory (16 bytes each, three times that while they are sorted). Where there are more, keys and rows are
partitioned into 256 parts by the hash of the key and wait on local disk (TMPDIR: 16 bytes a key, and the
rows, compressed) until the last row has come; then the parts are processed one by one. Memory is then 32 MB
each for keys and rows that are being partitioned, three times that for a moment, and the keys of one part: 64
MB at a billion keys, three times that while they are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.clock import local_ms
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME
from lakecore.options import Option, parse_duration_ms
from lakecore.row.partition_path import partition_text
from lakecore.row.values import batch_rows
from lakecore.write.buckets.key_moves import KeyMoves
from lakecore.write.buckets.key_places import KeyHashes, KeyPlaces, hash_keys
from lakecore.write.buckets.routing import Share, partition_codes
from lakecore.write.rows.incoming import Rows
from lakecore.write.rows.part_spool import PartSpool

__all__ = [
    "CrossPartition",
    "Emptied",
    "KeyLimits",
    "LiveKeys",
    "Occupied",
    "OverwrittenPartitions",
    "Places",
    "remembers",
]

Parts = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]

Emptied = Callable[[Sequence[bytes]], frozenset[bytes]]
"""This function selects the overwritten partitions among some (serialised rows)."""

Occupied = Callable[[bytes, int, int], int]
"""This function takes a partition (a serialised row), a bucket and a number of keys that are there, and
returns the number of the place.
"""

LiveKeys = Callable[[Emptied, Occupied], Iterator[tuple[KeyHashes, int | Places]]]
"""This function reads the keys of all live rows except those of some partitions: the hashes of some keys,
and the place of all of them or of each one. It tells the other function how many keys a place has.
"""

INDEX_TTL: Option[int | None] = Option(
    "cross-partition-upsert.index-ttl", parse_duration_ms, None, "How long keys are remembered (ms)."
)

_PARTS = 256
_PART_SHIFT = np.uint64(56)
_SPOOL_BYTES = 32 << 20


def remembers(raw: Mapping[str, str], now_ms: int) -> Callable[[Sequence[DataFile]], bool]:
    """Return a test whether any of some files counts for key places; keys of the others may come a second
    time.
    """
    ttl = INDEX_TTL.read(raw)
    local = local_ms(now_ms)

    def counts(files: Sequence[DataFile]) -> bool:
        return ttl is None or any(local <= (file.creation_time or local) + ttl for file in files)

    return counts


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """These are the memory limits of one write."""

    keys: int = 4_000_000
    """At most so many keys are in memory at once."""
    spool: int = _SPOOL_BYTES
    """So many bytes of keys, or rows, are kept before they go to disk."""


@dataclass(frozen=True, slots=True)
class OverwrittenPartitions:
    """It says what a write overwrites of a table whose keys may move between partitions."""

    selection: Emptied | None = None
    """It selects the partitions that are overwritten; rows of others are refused."""
    by_rows: bool = False
    """The partitions of the new rows are overwritten; they are known when the last row has come."""


class CrossPartition:
    """It splits the batches of one write, or of one of its assigners.

    `emptied` says what the write overwrites; the keys there do not count.
    """

    def __init__(
        self,
        moves: KeyMoves,
        live_keys: LiveKeys,
        spill_io: FileIO,
        emptied: OverwrittenPartitions,
        limits: KeyLimits,
    ) -> None:
        self._table = moves.table
        self._schema = moves.schema
        self._key_type = self._schema.row_type.select(self._schema.primary_keys)
        self._moves = moves
        self._live_keys = live_keys
        self._emptied = emptied.selection
        self._limits = limits
        self._partitions: set[bytes] | None = set() if emptied.by_rows else None
        self._keys = PartSpool(spill_io, _PARTS, self._limits.spool)
        self._rows = PartSpool(spill_io, _PARTS, self._limits.spool)
        self._index: KeyPlaces | None = None
        """None: not read yet, or on disk."""
        self._waits = emptied.by_rows
        self._loaded = False

    @property
    def overwritten(self) -> frozenset[bytes]:
        """Return the partitions of the rows so far, where these are overwritten."""
        return frozenset(self._partitions or ())

    def split(self, rows: Rows) -> list[Share]:
        """Return shares of one place each, rows of a key in their order; none while all rows have to be
        awaited.
        """
        if rows.batch.num_rows == 0:
            return []
        self._look_at(rows)
        if not self._loaded and not self._waits:
            self.load()
        prints = hash_keys(rows.batch, self._key_type)
        if self._index is None:
            self._rows.add(_with_kinds(rows), _parts_of(prints))
            return []
        shares = self._moves.split(rows, prints, self._index)
        if len(self._index) > self._limits.keys:
            self._put_away(self._index.all_keys())
            self._index = None
        return shares

    def drain(self) -> Iterator[list[Share]]:
        """Yield the shares of the rows that waited; call it once, after the last batch."""
        if self._rows and not self._loaded:
            self.load()
        if self._rows and self._index is not None:  # with the keys of the rows it may outgrow memory
            self._put_away(self._index.all_keys())
        for part in range(_PARTS):
            index: KeyPlaces | None = None
            for batch in self._rows.read(part):
                index = self._index_of(part) if index is None else index
                rows = _without_kinds(batch)
                yield self._moves.split(rows, hash_keys(rows.batch, self._key_type), index)
        self.close()

    def close(self) -> None:
        """Remove the files on local disk. It may be called twice."""
        self._keys.close()
        self._rows.close()

    def _look_at(self, rows: Rows) -> None:
        """Remember the partitions of rows, or refuse those that are not to be overwritten."""
        if self._partitions is None and self._emptied is None:
            return
        codes, partitions = partition_codes(rows.batch, self._schema.partition_type)
        if self._partitions is not None:
            self._partitions.update(partitions)
        elif self._emptied is not None and len(inside := self._emptied(partitions)) < len(partitions):
            wrong = next(code for code, partition in enumerate(partitions) if partition not in inside)
            partition_type = self._schema.partition_type
            at = int(np.flatnonzero(codes == wrong)[0])
            name = partition_text(
                batch_rows(rows.batch.select(list(partition_type.names)).slice(at, 1), partition_type)[0],
                partition_type,
            )
            raise InvalidInputError(
                f"table {self._table}: the data has rows of partition {name}, which is not "
                "among the partitions to be "
                "overwritten; write only rows of these partitions, or overwrite dynamically"
            )

    def load(self) -> None:
        """Read the places of all keys into memory or, when they are many, onto local disk. It is called at
        most once, and before the first row; `split` does it otherwise.
        """
        self._loaded = True
        loads: list[tuple[KeyHashes, int | Places]] = []
        count = 0
        for keys in self._live_keys(self._emptied or self._among_seen, self._moves.occupied):
            loads.append(keys)
            count += len(keys[0])
            if count > self._limits.keys:
                self._put_away(loads)
                loads.clear()
        if count <= self._limits.keys:
            self._index = KeyPlaces.of(self._table, loads)

    def _among_seen(self, partitions: Sequence[bytes]) -> frozenset[bytes]:
        return self.overwritten.intersection(partitions)

    def _put_away(self, keys: Sequence[tuple[KeyHashes, int | Places]]) -> None:
        for prints, places in keys:
            self._keys.add(_key_batch(prints, places), _parts_of(prints))

    def _index_of(self, part: int) -> KeyPlaces:
        stored = [_keys_of(batch) for batch in self._keys.read(part)]
        return KeyPlaces.of(self._table, stored)


def _parts_of(prints: KeyHashes) -> Parts:
    return (prints.high >> _PART_SHIFT).astype(np.uint8)


def _key_batch(prints: KeyHashes, places: int | Places) -> pa.RecordBatch:
    there = np.broadcast_to(np.asarray(places, np.int32), prints.low.shape)
    columns = [pa.array(prints.high), pa.array(prints.low), pa.array(np.ascontiguousarray(there))]
    return pa.RecordBatch.from_arrays(columns, names=["high", "low", "place"])


def _keys_of(batch: pa.RecordBatch) -> tuple[KeyHashes, Places]:
    high, low, places = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    return KeyHashes(high, low), places


def _with_kinds(rows: Rows) -> pa.RecordBatch:
    kinds = np.zeros(rows.batch.num_rows, np.int8) if rows.kinds is None else rows.kinds
    return rows.batch.append_column(KIND_NAME, pa.array(kinds, pa.int8()))


def _without_kinds(batch: pa.RecordBatch) -> Rows:
    kinds = batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)
    rows = batch.select(list(range(batch.num_columns - 1)))
    return Rows(rows, kinds if kinds.any() else None)
