"""Lookups by key during a history: a query that follows the table, and a new one, find the rows of a merged read."""

from __future__ import annotations

import pyarrow as pa

from lakecore.lookup.query.local_query import LocalTableQuery
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from tests.fuzz.failures import Failed

__all__ = ["Lookups"]

_TOP = (1 << 31) - 1


class Lookups:
    """It has one query for the whole history, and all keys that the table ever had."""

    def __init__(self) -> None:
        self._query: LocalTableQuery | None = None
        self._schema = -1
        self._keys: dict[str, dict[str, object]] = {}

    def close(self) -> None:
        if self._query is not None:
            self._query.close()
            self._query = None

    def check(self, table: Table, step: int) -> None:
        """Raises Failed, and UnsupportedError for a table whose rows cannot be looked up."""
        if self._query is None or self._schema != table.schema.id:
            self.close()
            self._query, self._schema = table.new_query(), table.schema.id
        self._query.refresh()
        rows = _merged(table)
        names = list(dict.fromkeys((*table.schema.partition_keys, *table.schema.primary_keys)))
        self._compare(self._query, rows, names, step, "a query that follows the table")
        if step % 3 == 0:
            with table.new_query() as query:
                query.refresh()
                self._compare(query, rows, names, step, "a new query")

    def _compare(self, query: LocalTableQuery, rows: pa.Table, names: list[str], step: int, who: str) -> None:
        keys = rows.select(names)
        found = query.lookup_table(keys)
        if not all(found.matches.to_pylist()):
            missing = [
                key
                for key, there in zip(keys.to_pylist(), found.matches.to_pylist(), strict=True)
                if not there
            ]
            raise Failed("a lookup misses a row", step, f"{who}: {missing[:5]}")
        ours, right = found.rows.select(rows.column_names).to_pylist(), rows.to_pylist()
        if repr(ours) != repr(right):  # NaN does not equal itself
            differ = next((one, two) for one, two in zip(ours, right, strict=True) if repr(one) != repr(two))
            raise Failed(
                "a lookup finds another row", step, f"{who}: {differ[0]!r}, merged read: {differ[1]!r}"
            )
        present = {repr(key): key for key in keys.to_pylist()}
        gone = [key for name, key in self._keys.items() if name not in present]
        self._keys |= present
        if gone:
            found = query.lookup_table(pa.Table.from_pylist(gone, keys.schema))
            if any(found.matches.to_pylist()):
                back = [key for key, there in zip(gone, found.matches.to_pylist(), strict=True) if there]
                raise Failed("a lookup finds a row that is gone", step, f"{who}: {back[:5]}")


def _merged(table: Table) -> pa.Table:
    """The rows of a merged read of the levels that lookups search: rule of Paimon for tables whose compactions look rows up."""
    where = ScanFilter(levels=(1, _TOP)) if table.options.needs_lookup else EVERYTHING
    latest = table.latest_snapshot()
    return Scan.of(
        SnapshotRows(table._scanner, table._read_context(), latest, where=where), None, None, None
    ).to_arrow()
