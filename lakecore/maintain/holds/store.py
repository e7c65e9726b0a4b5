"""This module stores holds in `<warehouse>/.lakecore/holds/<table>/<id>.json`, one file per hold.

Each is published atomically under a fresh name and never changed. A check that ends holds deletes the files
that existed before it read the table, so a hold that is placed meanwhile stays.
"""

from __future__ import annotations

import logging
import urllib.parse
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileStatus
from lakecore.fs.publish import publish_resolved
from lakecore.fs.temporary import is_temporary
from lakecore.maintain.holds.plan import replaced_by
from lakecore.maintain.holds.record import MAX_RECORD_BYTES, Hold
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.table_key import file_name, table_key

__all__ = ["HoldStore"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HoldStore(ServiceStore):
    """It stores the holds of a warehouse. It raises UnavailableError when storage does not answer: never
    "no hold".
    """

    directory: ClassVar[str] = "holds"

    clock: Clock

    def of(self, table: str) -> tuple[Hold, ...]:
        """Return the holds of a table, whichever of its branches is named; the oldest first.

        Cost: a listing, and a small read a hold.
        """
        key = table_key(table)
        holds = (self._load(status, key) for status in self.file_io.list(self._folder(key)))
        return tuple(sorted((h for h in holds if h is not None), key=lambda hold: (hold.since_ms, hold.id)))

    def all(self) -> tuple[Hold, ...]:
        """Return the holds of all tables, by table. The cost is that of `of`, for each table that ever had
        one.
        """
        folders = [status.name for status in self.file_io.list(self.root) if status.is_dir]
        tables = sorted(urllib.parse.unquote(name) for name in folders)
        return tuple(hold for table in tables for hold in self.of(table))

    def place(self, hold: Hold) -> tuple[Hold, bool]:
        """Write the hold down; the hold as it is kept, and whether its cause is new.

        One of the same cause is replaced, and its `since_ms` lives on. Killed in between, both are there.
        Raises UnavailableError, CommitUncertainError when it is not certain that the hold is there.
        """
        stamp = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        name = f"{stamp}-{self.clock.fresh_id().replace('-', '')[:16]}.json"
        key = table_key(hold.table)
        replaced_holds = self._replaced_by(hold)
        same = [old.since_ms for old in replaced_holds if old.cause == hold.cause]
        new_hold = replace(hold, id=name, table=key, since_ms=min([hold.since_ms, *same]))
        path = f"{self._folder(key)}/{name}"
        if not publish_resolved(self.file_io, path, new_hold.encoded(), self.clock):
            raise UnavailableError(f"{path} exists, so the hold on {key} could not be written; try again")
        try:
            self.end(replaced_holds)
        except LakeError as err:
            logger.warning("older records of the hold on %s could not be removed: %s", key, err)
        return new_hold, not same

    def _replaced_by(self, hold: Hold) -> tuple[Hold, ...]:
        """Return the holds that `hold` replaces, or none if the others cannot be read: recording this one is
        more important.
        """
        try:
            return replaced_by(hold, self.of(hold.table))
        except LakeError as err:
            logger.warning("the other holds on %s cannot be read: %s", hold.table, err)
            return ()

    def end(self, holds: Iterable[Hold]) -> None:
        """Delete these records; repeatable. Their names are those of a listing, whatever they are."""
        storage = service_files(self.file_io, self.warehouse)
        for hold in holds:
            storage.delete_listed(self._folder(hold.table), hold.id)

    def _load(self, status: FileStatus, table: str) -> Hold | None:
        """Return a hold, or None if there is none, or if it has ended since it was listed."""
        if is_temporary(status.name):
            return None
        if status.is_dir or status.size > MAX_RECORD_BYTES:
            return Hold.unreadable(status.name, table, "it is a directory or too large")
        try:
            return Hold.decoded(self.file_io.read(status.path), status.name, table)
        except NotFoundError:
            return None
        except CorruptDataError as err:
            return Hold.unreadable(status.name, table, err.problem)
        except UnsupportedError as err:
            return Hold.unreadable(status.name, table, str(err))

    def _folder(self, table: str) -> str:
        return f"{self.root}/{file_name(table)}"
