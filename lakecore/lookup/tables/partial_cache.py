"""This module has the partial cache: it reads the files that lookups need, by a local query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakecore.lookup.query.found_rows import FoundRows
from lakecore.lookup.tables.run import Places
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.source.readable import Readable

if TYPE_CHECKING:
    from lakecore.lookup.query.local_query import LocalTableQuery

__all__ = ["PartialCache", "matches"]


class PartialCache:
    """It is refreshed by one thread at a time; meanwhile any number of threads may look rows up."""

    def __init__(self, table: Readable, columns: Sequence[str], where: Predicate | None) -> None:
        """Raises UnsupportedError for a table whose rows a local query cannot find."""
        from lakecore.lookup.query.local_query import LocalTableQuery

        self._table = table
        self._where = where
        more = columns_of(where) if where is not None else frozenset()
        column_names = {*columns, *more}
        names = [name for name in table.schema.row_type.names if name in column_names]
        self._query: LocalTableQuery = LocalTableQuery(table, names)
        self.snapshot_id: int | None = None
        """The snapshot whose rows are found; None before there is one."""

    @property
    def pending(self) -> int:
        """Return the number of snapshots that follow. It costs a look for the latest."""
        latest = self._table._stores.snapshots.latest_id() or 0
        return max(latest - (self.snapshot_id or 0), 0)

    def load(self) -> None:
        """Find the files of the latest snapshot."""
        self.refresh()

    def refresh(self) -> None:
        """Find the rows of the latest snapshot from now on."""
        self.snapshot_id = self._query.refresh()

    def joined(self, keys: pa.Table) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each key that has one, ordered by that number."""
        return matches(self._query.lookup_table(keys), self._where)

    def close(self) -> None:
        """Release the files."""
        self._query.close()


def matches(answer: FoundRows, where: Predicate | None) -> tuple[Places, pa.Table]:
    """Return the numbers of the keys that were found, and their rows, where these meet `where`."""
    numbers = np.flatnonzero(answer.matches.to_numpy(zero_copy_only=False))
    rows = answer.rows.take(pa.array(numbers)).combine_chunks()
    if where is None or not len(numbers):
        return numbers, rows
    keeps = mask(where, rows.to_batches()[0])
    return numbers[keeps.to_numpy(zero_copy_only=False)], rows.filter(keeps)
