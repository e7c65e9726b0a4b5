"""This module guards the removal of tables from a catalog: holds, the lease, and what was dropped before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.dropped.store import DroppedTables
from lakecore.maintain.holds.gate import refusal
from lakecore.maintain.holds.plan import HoldEffect, effect_on
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["TableRemoval"]

_LEASE = LeaseTimes(60_000)
_OUTSIDE = ("data-file.external-paths", "global-index.external-path")


@dataclass(frozen=True)
class TableRemoval:
    """This has the checks before a table of one warehouse is dropped, renamed or restored."""

    file_io: FileIO
    warehouse: str
    clock: Clock

    @cached_property
    def dropped(self) -> DroppedTables:
        """Return the store of the tables that were dropped."""
        return DroppedTables(self.file_io, self.warehouse, self.clock)

    def check_no_hold(self, table: str, chore: str) -> None:
        """Raise OnHoldError when the table is on hold and that refuses the chore."""
        if effect_on(chore) is not HoldEffect.REFUSED:
            return
        if holds := HoldStore(self.file_io, self.warehouse, self.clock).of(table):
            raise refusal(table, chore, holds)

    @contextmanager
    def exclusive(self, table: str, chore: str) -> Iterator[None]:
        """Hold the lease of the table within the block. Raises OnHoldError, and BusyError when a chore works
        on the table.
        """
        self.check_no_hold(table, chore)
        owner = f"{chore} {self.clock.fresh_id()[:8]}"
        table_lease = leased(self.file_io, self.warehouse, table, owner, self.clock, _LEASE)
        with table_lease as lease, Heartbeat() as heartbeat, heartbeat.keeping(lease):
            self.check_no_hold(table, chore)
            yield

    def check_not_half_dropped(self, table: str, path: str) -> None:
        """Raise AlreadyExistsError when files of an interrupted drop are still at `path`: a new table would
        take them for its own.
        """
        record = self.dropped.interrupted(table)
        if record is not None and self.file_io.list(path):
            raise AlreadyExistsError(
                f"table {table!r}: its drop of {record.by} was interrupted, and files of it are still at "
                f"{path}; repeat `lakecore drop-table {table}` first"
            )

    def check_files_inside(self, table: str, storage: FileIO, path: str) -> None:
        """Raise UnsupportedError when a schema of the table names directories outside of its own."""
        schemas = SchemaStore(storage, TablePaths(path), self.clock)
        latest = schemas.latest()
        for key in _OUTSIDE:
            if latest is not None and latest.options.get(key):
                raise UnsupportedError(
                    f"table {table!r} has files at {key}; drop it with the engine that created it"
                )
