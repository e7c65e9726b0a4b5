"""This module polls for the watchers of one lake: it finds which tables have a snapshot that a watcher has
not seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.registry import open_catalog
from lakecore.errors import NotFoundError
from lakecore.jobs.watching.watch import WatchPosition, newest
from lakecore.maintain.target import in_threads
from lakecore.store.snapshots import SnapshotStore

__all__ = ["TablePoll"]

logger = logging.getLogger(__name__)


class TablePoll:
    """It reads the latest snapshot of many tables. The catalog and the tables stay open between two
    rounds.
    """

    def __init__(self) -> None:
        self._config: CatalogConfig | None = None
        self._catalog: Catalog
        self._stores: dict[str, SnapshotStore] = {}

    def changed(
        self, config: CatalogConfig, positions: Sequence[tuple[str, WatchPosition | None]]
    ) -> dict[str, WatchPosition]:
        """Return the position of the latest snapshot by table, for the tables of which a watcher has not
        seen it.

        `config` is that of this round, because addresses and secrets may change. `positions`: the table of
        each watcher and its position, None before its first look. It costs three small reads a table, several
        tables at once. A table that does not exist, or whose storage does not answer, is left out. Raises the
        errors of opening the warehouse.
        """
        if config != self._config:
            self._catalog = open_catalog(config)
            self._config, self._stores = config, {}
        tables = sorted({table for table, _ in positions})
        latest = dict(zip(tables, in_threads(self._latest, tables), strict=True))
        return {
            table: position
            for table, last in positions
            if (position := latest[table]) is not None and position != last
        }

    def _latest(self, table: str) -> WatchPosition | None:
        try:
            if table not in self._stores:
                self._stores[table] = self._catalog.load_table(table)._stores.snapshots
            return newest(self._stores[table])
        except NotFoundError:
            return None  # not there yet
        except Exception as err:  # noqa: BLE001 - one table's trouble must not end the watch of the others
            logger.warning(
                "the latest snapshot of %s is not known yet; the next round reads it again: %s", table, err
            )
            return None
