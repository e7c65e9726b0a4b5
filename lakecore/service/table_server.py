"""This module has one server of a table's query service, which follows the table.

A service has one of them, or several which share the buckets. Each reads the manifests of the whole table,
and keeps the names of the files of its own buckets and the local copies of those that were asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.lookup.copies.process_cache import shared_cache
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.metadata.schema import TableSchema
from lakecore.service.addresses import Address
from lakecore.service.server import KvQueryServer, ServerNumber
from lakecore.service.server_metrics import ServerFigures
from lakecore.service.server_options import ServerOptions
from lakecore.table import Table

__all__ = ["TableServer", "TableServerState"]

logger = logging.getLogger(__name__)

_MOST_MISSING_TURNS = 3
"""A table that was not found so many times in turn does not exist any more."""


@dataclass(frozen=True, slots=True)
class TableServerState:
    """This is what a server answers from."""

    snapshot: int | None = None
    """It is the snapshot of the last refresh that succeeded; None while the table has none."""
    refreshed_ms: int = 0
    """It is the time of that refresh, in milliseconds since 1970."""
    error: str | None = None
    """It is the reason why the last refresh failed; None where it succeeded."""


class TableServer:
    """It serves the buckets that are its own, of the table that `load` returns."""

    def __init__(
        self,
        load: Callable[[], Table],
        clock: Clock,
        options: ServerOptions | None = None,
        number: ServerNumber | None = None,
    ) -> None:
        """Load the table; nothing listens yet. Raises UnsupportedError for a table whose rows cannot be
        looked up, InvalidInputError for a cache directory that cannot be used.
        """
        self._load = load
        self._clock = clock
        self._number = number or ServerNumber()
        table = load()
        self.table = table
        """It is the table as it was loaded last."""
        self._cache = None if options is None else shared_cache(options.cache_directories)
        self._query = self._new_query(table)
        self._server = KvQueryServer(self._query, self._number, options)
        self._missing_turns = 0
        self.state = TableServerState()

    @property
    def figures(self) -> ServerFigures:
        """Return what the server has done."""
        return self._server.figures

    @property
    def local_bytes(self) -> tuple[int, int]:
        """Return the bytes of local copies on disk and in memory, of all queries of the process."""
        cache = self._query.cache
        return cache.disk_size, cache.memory_size

    def start(self) -> Address:
        """Read the latest snapshot, then listen; return the address. Raises UnavailableError."""
        self._refresh()
        return self._server.start()

    def refresh(self) -> bool:
        """Read the changes up to the latest snapshot. Return whether that succeeded; `state` has the reason
        why not, and the server goes on with what it has.

        Raises NotFoundError when the table was gone several times in turn.
        """
        try:
            self._refresh()
        except LakeError as err:
            self._missing_turns = self._missing_turns + 1 if isinstance(err, NotFoundError) else 0
            if self._missing_turns >= _MOST_MISSING_TURNS:
                raise
            logger.warning("table %s: the query service cannot be refreshed: %s", self.table.name, err)
            self.state = replace(self.state, error=str(err))
            return False
        self._missing_turns = 0
        return True

    def close(self) -> None:
        """Answer what was asked and stop; later calls do nothing."""
        self._server.close()
        self._query.close()

    def _refresh(self) -> None:
        table = self._load()
        if _rows_of(table.schema) != _rows_of(self.table.schema):
            self._reopen(table)
        snapshot = self._query.refresh()
        self.state = TableServerState(snapshot, self._clock.now_ms())

    def _new_query(self, table: Table) -> SerializedQuery:
        return SerializedQuery(table, cache=self._cache, own=self._number.owns)

    def _reopen(self, table: Table) -> None:
        """Answer with rows of the new schema from now on; requests that have begun end with the old one."""
        logger.info(
            "table %s: its schema is %d now; local copies are made again", table.name, table.schema.id
        )
        query = self._new_query(table)
        try:
            query.refresh()
        except LakeError:
            query.close()
            raise
        old, self._query, self.table = self._query, query, table
        self._server.query = query
        old.close()


def _rows_of(schema: TableSchema) -> tuple[object, ...]:
    """Return the parts of a schema on which rows, keys and their buckets depend."""
    return schema.fields, schema.primary_keys, schema.partition_keys, tuple(sorted(schema.options.items()))
