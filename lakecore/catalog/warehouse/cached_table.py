"""This module has a table of a catalog with a cache: its scans may use a schema and snapshots from memory,
everything else loads the table from storage first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from lakecore.catalog.names import TableName
from lakecore.errors import LakeError
from lakecore.options import option_texts
from lakecore.read.source.scan import Scan
from lakecore.store.cache.reading_stores import ReadingStores
from lakecore.store.cache.table_cache import TableCache
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["CachedTable", "cached_table"]


class CachedTable(Table):
    """It is a table for its callers, and a plain `Table` when it is pickled or copied with other stores.

    `_stores`, which all writes, jobs, streams and lookups go through, are read from storage when they are
    first needed. Only `scan` uses `_reads`, whose storage refuses changes.
    """

    _reads: Table
    _load: Callable[[], Table]
    _forget: Callable[[], None]

    def __new__(cls, name: str, *args: Any, **fields: Any) -> Any:
        """Return a plain table where stores are given, as `dataclasses.replace` does."""
        if "_stores" in fields:
            return Table(name, **fields)
        return super().__new__(cls)

    def __init__(
        self,
        name: str,
        reads: Table,
        load: Callable[[], Table],
        forget: Callable[[], None],
        overrides: Mapping[str, str],
    ) -> None:
        vars(self).update(name=name, _reads=reads, _load=load, _forget=forget, _overrides=overrides)

    def __reduce__(self) -> Any:
        return Table, (self.name, self._stores, self._overrides)

    @cached_property
    def _stores(self) -> TableStores:
        return self._again()._stores

    def _again(self) -> Table:
        """Return the table as storage has it now, with the options of the handle. Raises NotFoundError."""
        table = self._load()
        return table.with_options(self._overrides) if self._overrides else table

    def _facts(self) -> dict[str, object]:
        return self._reads._facts()

    def with_options(self, options: Mapping[str, str]) -> Table:
        """Return the same table with options that hold for this handle only; see `Table.with_options`."""
        overrides = {**self._overrides, **option_texts(options)}
        return CachedTable(self.name, self._reads.with_options(options), self._load, self._forget, overrides)

    def scan(self, **request: Any) -> Scan:
        """Prepare a batch read, see `Table.scan`. Its schema and snapshots may be from memory.

        What the cache cannot answer is asked of storage: a scan that fails with the schema in memory, and one
        of a table that has no snapshot, because it may have been dropped.
        """
        try:
            return self._reads.scan(**request)
        except LakeError:
            self._forget()
            return self._again().scan(**request)


def cached_table(
    cache: TableCache, name: TableName, load: Callable[[], Table], options: Mapping[str, str] | None
) -> Table:
    """Return a table, of which scans may have the schema and snapshots from memory. A table without snapshots
    of its own, such as a format table, is returned as `load` does it. Raises as `load`.
    """
    key, changes = (name.database, name.table, name.branch), cache.changes()
    reads: Table | None = cache.table(key)
    fresh = None
    if reads is None:
        fresh = load()
        if type(fresh) is not Table or not cache.limits.snapshots:
            return fresh.with_options(options) if options else fresh
        reads = replace(fresh, _stores=ReadingStores.of(fresh._stores, cache))
        cache.put_table(key, fresh.path, reads, changes)
    table = CachedTable(str(name), reads, load, partial(cache.forget_name, name.database, name.table), {})
    if fresh is not None:
        vars(table)["_stores"] = fresh._stores
    return table.with_options(options) if options else table
