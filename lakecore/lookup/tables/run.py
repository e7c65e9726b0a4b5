"""This module has runs: rows that were stored together, with an index by the columns of the join, and one by
the primary key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.lookup.tables.blocks import BlockCache
from lakecore.lookup.tables.hash_index import HashIndex, HashIndexBuilder
from lakecore.lookup.tables.key_bytes import KeyBytes, KeyForm
from lakecore.lookup.tables.row_store import RowStore, RowStoreBuilder
from lakecore.metadata.row_kind import KIND_NAME, RowKind

__all__ = ["Layout", "Run", "RunBuilder", "Storage", "concatenated", "last_rows"]

Places = npt.NDArray[np.int64]
Dead = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Layout:
    """It says what the runs of a lookup table have."""

    schema: pa.Schema
    """These are the stored columns."""
    join: KeyForm
    """These columns are looked up."""
    primary: KeyForm | None
    """This is the primary key; None if rows have none."""
    keeps_deletes: bool = False
    """It tells whether deleted rows are stored, too, because their sequence counts. The row kind is then the
    last column, and the join does not find them.
    """

    @property
    def shares_index(self) -> bool:
        """Return whether one index serves both: the join is by the primary key."""
        return self.primary == self.join and not self.keeps_deletes


@dataclass(frozen=True, slots=True)
class Storage:
    """It says where runs are stored."""

    directory: str | None
    """Large runs have files in this directory; None stores all in memory."""
    codec: str | None
    """Blocks of rows are compressed with it."""
    cache: BlockCache[Any]


@dataclass(frozen=True, slots=True)
class Run:
    """It never changes. Which of its rows are replaced is known elsewhere (`CacheState`)."""

    rows: RowStore
    join: HashIndex
    primary: HashIndex | None
    layout: Layout

    def __len__(self) -> int:
        return len(self.rows)

    def joined(self, keys: KeyBytes, dead: Dead | None) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each live row with one of `keys` in the join."""
        numbers, places = _alive(self.join.find(keys.hashes), dead)
        rows = self.rows.take(places)
        same = _same(self.layout.join, rows, keys, numbers)
        return (numbers, rows) if same.all() else (numbers[same], rows.filter(pa.array(same)))

    def places_of(self, keys: KeyBytes, dead: Dead | None) -> tuple[Places, Places]:
        """Return the number of the key and the place of its live row, for each of these primary keys."""
        index, form = self.primary or self.join, self.layout.primary
        numbers, places = _alive(index.find(keys.hashes), dead)
        if form is None or not len(places):
            return numbers, places
        same = _same(form, self.rows.take(places), keys, numbers)
        return numbers[same], places[same]

    def live(self, dead: Dead | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not replaced, in their order."""
        start = 0
        for batch in self.rows.batches():
            end = start + batch.num_rows
            yield batch if dead is None else batch.filter(pa.array(~dead[start:end]))
            start = end

    def close(self) -> None:
        """Forget the blocks that the cache has of this run."""
        self.rows.close()
        self.join.close()
        if self.primary is not None:
            self.primary.close()


class RunBuilder:
    """It takes batches with the columns of a layout, and makes a run. It holds a few blocks and, of a run in
    memory, all rows.
    """

    def __init__(self, layout: Layout, storage: Storage, *, small: bool = False) -> None:
        """Begin a run; one that is `small` is stored in memory."""
        directory = None if small else storage.directory
        codec = None if small else storage.codec
        self._layout = layout
        self._rows = RowStoreBuilder(layout.schema, directory, codec, storage.cache)
        self._join = HashIndexBuilder(directory, storage.cache)
        alone = layout.primary is None or layout.shares_index
        self._primary = None if alone else HashIndexBuilder(directory, storage.cache)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Those with a null in a column of the join match nothing."""
        if not batch.num_rows:
            return
        first = self._rows.add(batch)
        places = np.arange(first, first + batch.num_rows)
        keys = self._layout.join.encode(batch)
        is_added = keys.complete
        if self._layout.keeps_deletes:
            kinds = batch.column(KIND_NAME).to_numpy()
            is_added = is_added & (kinds != int(RowKind.DELETE))
        whole = bool(is_added.all())
        self._join.add(keys.hashes if whole else keys.hashes[is_added], places if whole else places[is_added])
        if self._primary is not None and self._layout.primary is not None:
            self._primary.add(self._layout.primary.encode(batch).hashes, places)

    def finish(self) -> Run:
        """Return the run of all rows that were added."""
        primary = None if self._primary is None else self._primary.finish()
        return Run(self._rows.finish(), self._join.finish(), primary, self._layout)


def last_rows(keys: KeyBytes) -> Places:
    """Return the last row of each key, in the order of the rows."""
    codes = keys.values.combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.int64)
    last[codes] = np.arange(len(codes))
    return np.sort(last)


def _alive(matches: tuple[Places, Places], dead: Dead | None) -> tuple[Places, Places]:
    numbers, places = matches
    if dead is None or not len(places):
        return numbers, places
    is_alive = ~dead[places]
    return numbers[is_alive], places[is_alive]


def _same(form: KeyForm, rows: pa.Table, keys: KeyBytes, numbers: Places) -> npt.NDArray[np.bool_]:
    """Return whether each row has the key of that number: equal hashes do not prove it."""
    if not len(numbers):
        return np.zeros(0, np.bool_)
    values = keys.values.take(pa.array(numbers))
    return np.asarray(pc.equal(form.encode(rows).values, values).to_numpy())


def concatenated(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the arrays one after the other; an empty array of places for none."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
