"""This module keeps tables that were dropped in `<warehouse>/.lakecore/dropped/<table>/<id>/`: the record
`drop.json`, and the directory of the table as `files`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.file_io import FileIO
from lakecore.maintain.deletion.runs import quoted_table
from lakecore.maintain.dropped.move import delete_table_files, has_files, move_away, move_back
from lakecore.maintain.dropped.record import DroppedTable, DropState
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.holds.user import this_user
from lakecore.maintain.service_store import ServiceStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["DroppedTables"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DroppedTables(ServiceStore):
    """It stores the dropped tables of a warehouse. `storage` of its methods may change the table's directory
    and `.lakecore`.
    """

    directory: ClassVar[str] = "dropped"

    clock: Clock

    def drop(
        self, table: str, path: str, storage: FileIO, strike: Callable[[], None], entry: str = ""
    ) -> DroppedTable | None:
        """Move the table at `path` away, or complete a drop of it that was interrupted. None where it has
        neither files nor an `entry` to be kept.

        `strike` removes the name from the catalog; it is called when the drop is recorded, before a file
        moves, and again where a drop is completed.
        """
        record = self.interrupted(table)
        if record is None and not entry and not storage.list(path):
            strike()
            return None
        if record is None or self._is_another_table(record, path, storage):
            record = self._begin(table, path, entry)
        strike()
        move_away(storage, path, self.files(record))
        return self._save(replace(record, state=DropState.KEPT))

    def restore(self, record: DroppedTable, path: str, storage: FileIO, enter: Callable[[], None]) -> None:
        """Move the table back to `path`, also one whose drop was interrupted. The caller has seen that there
        is no table. Raises AlreadyExistsError when other files are there, InvalidInputError for a drop that
        is being purged. `enter` gives the name to the catalog, when all files are back.
        """
        if record.state is DropState.PURGING:
            raise InvalidInputError(
                f"drop {record.id} of {record.table} is being deleted for good, so it cannot be restored; "
                "choose another one of `lakecore dropped-tables`"
            )
        if record.state is DropState.KEPT and has_files(storage, path):
            raise AlreadyExistsError(
                f"table {record.table!r} cannot be restored: {path} is not empty; move its files away"
            )
        record = self._save(replace(record, state=DropState.RESTORING))
        move_back(storage, self.files(record), path)
        enter()
        self._forget(record)

    def purge(self, ttl_ms: int) -> tuple[DroppedTable, ...]:
        """Delete for good the tables that were dropped more than `ttl_ms` ago, and return them. Tables that
        are on hold stay.
        """
        purged = []
        for record in self.due_for_purge(ttl_ms):
            try:
                self.delete(record)
            except UnavailableError:
                raise
            except LakeError as err:
                logger.warning("the dropped table %s could not be deleted: %s", record.id, err)
                continue
            purged.append(record)
        return tuple(purged)

    def due_for_purge(self, ttl_ms: int) -> Iterator[DroppedTable]:
        """Yield the tables that `purge` deletes."""
        holds = HoldStore(self.file_io, self.warehouse, self.clock)
        for record in self.list():
            old = self.clock.now_ms() - record.dropped_ms > ttl_ms and record.state is DropState.KEPT
            if (old or record.state is DropState.PURGING) and not holds.of(record.table):
                yield record

    def delete(self, record: DroppedTable) -> None:
        """Delete the files of a dropped table for good, then its record."""
        record = self._save(replace(record, state=DropState.PURGING))
        delete_table_files(self.file_io, self.files(record))
        self._forget(record)

    def interrupted(self, table: str) -> DroppedTable | None:
        """Return the drop of the table that is not complete, None without one. The cost is a listing, and a
        read a drop of that name.
        """
        moving = (record for record in self.list(table) if record.state is DropState.MOVING)
        return next(moving, None)

    def find(self, table: str, drop_id: str | None = None) -> DroppedTable:
        """Return the drop of that id, else the last one of the table. Raises NotFoundError."""
        records = [
            record
            for record in self.list(table)
            if record.id == drop_id or (drop_id is None and record.state is not DropState.PURGING)
        ]
        if not records:
            which = "no dropped table" if drop_id is None else f"no drop {drop_id!r} of the table"
            raise NotFoundError(
                f"table {table!r}: {which} is kept in {self.root}; `lakecore dropped-tables` lists them"
            )
        return next((record for record in records if record.state is DropState.RESTORING), records[-1])

    def list(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """List the dropped tables, or those of one name, oldest first. It costs a listing a name and a read a
        drop; a record that is damaged is logged and left out.
        """
        if table is not None:
            return tuple(sorted(self._of(f"{self.root}/{quoted_table(table)}"), key=_order))
        folders = [status.path for status in self.file_io.list(self.root) if status.is_dir]
        return tuple(sorted((one for folder in folders for one in self._of(folder)), key=_order))

    def files(self, record: DroppedTable) -> str:
        """Return where the directory of the table is kept."""
        return f"{self._folder(record)}/files"

    def _begin(self, table: str, path: str, entry: str) -> DroppedTable:
        now = self.clock.now_ms()
        stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        return self._save(
            DroppedTable(
                id=f"{stamp}-{self.clock.fresh_id().replace('-', '')[:16]}",
                table=table,
                path=path,
                dropped_ms=now,
                by=this_user(),
                state=DropState.MOVING,
                entry=entry,
            )
        )

    def _is_another_table(self, record: DroppedTable, path: str, storage: FileIO) -> bool:
        """Return whether the table at `path` was created after the interrupted drop, whose oldest schema was
        moved first.
        """
        paths = TablePaths(self.files(record))
        moved = SchemaStore(storage, paths).list_ids()
        there = TablePaths(path).schema(moved[0]) if moved else path
        if not moved or storage.stat(there) is None:
            return False
        return storage.read(there) != storage.read(paths.schema(moved[0]))

    def _of(self, folder: str) -> Iterator[DroppedTable]:
        for status in self.file_io.list(folder):
            path = f"{status.path}/drop.json"
            try:
                yield DroppedTable.decoded(self.file_io.read(path), path)
            except NotFoundError:
                continue
            except (CorruptDataError, UnsupportedError) as err:
                logger.warning("%s is ignored: %s", path, err)

    def _folder(self, record: DroppedTable) -> str:
        return f"{self.root}/{quoted_table(record.table)}/{record.id}"

    def _save(self, record: DroppedTable) -> DroppedTable:
        self.file_io.overwrite(f"{self._folder(record)}/drop.json", record.encoded())
        return record

    def _forget(self, record: DroppedTable) -> None:
        self.file_io.delete(f"{self._folder(record)}/drop.json")
        self.file_io.remove_directory(self.files(record))
        self.file_io.remove_directory(self._folder(record))


def _order(record: DroppedTable) -> tuple[int, str]:
    return record.dropped_ms, record.id
