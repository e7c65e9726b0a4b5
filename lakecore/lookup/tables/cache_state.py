"""This module has the state of a full cache: runs of rows, and which of their rows are replaced.

A state never changes, so that lookups need no lock: a refresh makes a new one. Runs are merged when an
earlier one is less than four times as large as the next, so that a row is copied about once for each power
of four, and a lookup searches about log4(rows) runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.lookup.tables.key_bytes import KeyBytes
from lakecore.lookup.tables.run import Layout, Places, Run, RunBuilder, Storage, concatenated

__all__ = ["CacheState", "LiveRun"]

_RATIO = 4
_SMALL = 1 << 16
_MOST_DEAD = 2
Dead = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LiveRun:
    """This is a run, with the rows of it that are replaced."""

    run: Run
    dead: Dead | None = None
    """It has a flag for each row; None if none is replaced. It takes a byte a row in memory."""

    @property
    def live(self) -> int:
        """Return the number of rows that are not replaced."""
        return len(self.run) - (0 if self.dead is None else int(np.count_nonzero(self.dead)))

    def without(self, places: Places) -> LiveRun:
        """Return the run with these rows replaced, too."""
        if not len(places):
            return self
        dead = np.zeros(len(self.run), np.bool_) if self.dead is None else self.dead.copy()
        dead[places] = True
        return replace(self, dead=dead)


@dataclass(frozen=True, slots=True)
class CacheState:
    """These are the rows of the table at one snapshot."""

    layout: Layout
    storage: Storage
    runs: tuple[LiveRun, ...] = ()

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return sum(one.live for one in self.runs)

    @classmethod
    def loaded(cls, layout: Layout, storage: Storage, batches: Iterable[pa.RecordBatch]) -> CacheState:
        """Store all rows of a table, each of which has its own primary key. It is read once, in bounded
        memory.
        """
        builder = RunBuilder(layout, storage)
        for batch in batches:
            builder.add(batch)
        run = builder.finish()
        return cls(layout, storage, (LiveRun(run),) if len(run) else ())

    def joined(self, keys: KeyBytes) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each row with one of `keys` in the join, ordered by
        the number of the key.
        """
        joins = [one.run.joined(keys, one.dead) for one in self.runs]
        numbers = concatenated([part[0] for part in joins])
        rows = pa.concat_tables([self.layout.schema.empty_table(), *(part[1] for part in joins)])
        if len(numbers) > 1 and (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            return numbers[order], rows.combine_chunks().take(pa.array(order))
        return numbers, rows

    def rows_of(self, keys: KeyBytes) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each of these primary keys that has a row."""
        numbers, rows = [], [self.layout.schema.empty_table()]
        for one in self.runs:
            key_numbers, places = one.run.places_of(keys, one.dead)
            numbers.append(key_numbers)
            rows.append(one.run.rows.take(places))
        return concatenated(numbers), pa.concat_tables(rows)

    def changed(self, keys: KeyBytes | None, rows: Sequence[pa.RecordBatch]) -> CacheState:
        """Return the state without the rows of these primary keys, and with `rows`."""
        runs = self.runs
        if keys is not None and len(keys):
            runs = tuple(one.without(one.run.places_of(keys, one.dead)[1]) for one in runs)
        count = sum(batch.num_rows for batch in rows)
        if count:
            builder = RunBuilder(self.layout, self.storage, small=count <= _SMALL)
            for batch in rows:
                builder.add(batch)
            runs = (*runs, LiveRun(builder.finish()))
        return replace(self, runs=runs)._tidy()

    def _tidy(self) -> CacheState:
        """Merge runs that are too small beside the one before them, and one of which most "
        "rows are replaced."""
        runs = [one for one in self.runs if one.live]
        while len(runs) > 1 and runs[-2].live < _RATIO * runs[-1].live:
            runs[-2:] = [self._merge(runs[-2:])]
        runs_to_keep = [one if len(one.run) < _MOST_DEAD * one.live else self._merge([one]) for one in runs]
        return replace(self, runs=tuple(runs_to_keep))

    def _merge(self, runs: Sequence[LiveRun]) -> LiveRun:
        small = sum(one.live for one in runs) <= _SMALL
        builder = RunBuilder(self.layout, self.storage, small=small)
        for one in runs:
            for batch in one.run.live(one.dead):
                builder.add(batch)
        return LiveRun(builder.finish())

    def close(self, successor: CacheState | None = None) -> None:
        """Forget the cached blocks of the runs that `successor` does not have."""
        ids = {id(one.run) for one in successor.runs} if successor is not None else set()
        for one in self.runs:
            if id(one.run) not in ids:
                one.run.close()
