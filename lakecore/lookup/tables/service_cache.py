"""This module has the cache that keeps nothing: it asks the query service of the table, and becomes a partial
cache when the service does not answer.

Paimon's FileStoreLookupFunction asks a service that is registered when it opens (createRemoteTable of
PrimaryKeyPartialLookupTable). There a lookup fails with the service, and the task that starts again asks
storage once more whether a service is registered. Here the lookup itself goes on with local files.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import pyarrow as pa

from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.lookup.query.found_rows import FoundRows
from lakecore.lookup.tables.partial_cache import PartialCache, matches
from lakecore.lookup.tables.run import Places
from lakecore.predicate.tree import Predicate

__all__ = ["ServiceCache", "ServiceQuery"]

logger = logging.getLogger(__name__)


class ServiceQuery(Protocol):
    """It looks rows up in a query service."""

    def lookup_table(self, keys: pa.Table) -> FoundRows:
        """Look up many keys of any bucket; rows have all columns. Raises UnavailableError,
        CorruptDataError.
        """

    def is_current(self) -> bool:
        """Return whether the table still has the schema with which the query was made."""

    def close(self) -> None:
        """Close the connections."""


class ServiceCache:
    """It is refreshed by one thread at a time; meanwhile any number of threads may look rows up."""

    def __init__(self, name: str, query: ServiceQuery, where: Predicate | None, local: PartialCache) -> None:
        """Take the query of a service, and a local cache that is not loaded; both are closed with it."""
        self._name = name
        self._query = query
        self._where = where
        self._local = local
        self._lock = threading.Lock()
        self._is_local = False

    @property
    def asks_service(self) -> bool:
        """Return whether the service is asked; it is not once it has failed."""
        return not self._is_local

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot whose rows are found; None while the service is asked, which does not say."""
        return self._local.snapshot_id

    @property
    def pending(self) -> int:
        """Return the number of snapshots that follow; none while the service is asked, for it follows."""
        return self._local.pending if self._is_local else 0

    def load(self) -> None:
        """Do nothing: the service has the rows."""

    def refresh(self) -> None:
        """Look whether the schema changed, which ends the use of the service; a local cache is refreshed."""
        if self._is_local:
            self._local.refresh()
        elif not self._query.is_current():
            self._use_local("the schema has changed")

    def joined(self, keys: pa.Table) -> tuple[Places, pa.Table]:
        """Return the number of the key and the row, for each key that has one, ordered by that number."""
        if not self._is_local:
            try:
                return matches(self._query.lookup_table(keys), self._where)
            except (UnavailableError, CorruptDataError) as err:
                self._use_local(str(err))
        return self._local.joined(keys)

    def close(self) -> None:
        """Close the connections, and release local files."""
        try:
            self._query.close()
        finally:
            self._local.close()

    def _use_local(self, reason: str) -> None:
        """Answer from local files from now on. Threads that come meanwhile wait."""
        with self._lock:
            if self._is_local:
                return
            logger.warning(
                "table %s: lookups read local files from now on, not the query service: %s",
                self._name,
                reason,
            )
            self._local.load()
            self._is_local = True
