"""This module has the lock of a table in the database of a JDBC catalog, which Java's commits hold, too."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from lakecore.catalog.jdbc.connection import JdbcConnection, is_deadlock
from lakecore.catalog.jdbc.mysql import check_characters
from lakecore.catalog.jdbc.options import JdbcOptions
from lakecore.catalog.jdbc.statements import RELEASE_EXPIRED
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidOptionError, LakeError, UnavailableError
from lakecore.store.table_lock import lost_lock

__all__ = ["JdbcLock"]

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 50


@dataclass(frozen=True, slots=True)
class JdbcLock:
    """This is a row of `paimon_distributed_locks`, as Java's `JdbcCatalogLock` writes it.

    Whoever waits removes the row of an owner that has held it for longer than the owner's own time
    (`lock-acquire-timeout`), by the clock of the database: the owner died. Only the row that was inserted is
    deleted at the end, so that a lock that was taken over meanwhile stays with its new owner (Java deletes
    any).
    """

    connection: JdbcConnection
    options: JdbcOptions
    lock_id: str
    clock: Clock

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock within the block. Costs four statements. Raises UnavailableError when another writer
        holds it for longer than `lock-acquire-timeout`, CommitUncertainError when this one did and was taken
        over.
        """
        acquired = self._acquire()
        try:
            yield
        except BaseException:
            self._release(acquired)
            raise
        if not self._release(acquired):
            limit = f"lock-acquire-timeout={self.options.lock_timeout_ms} ms"
            raise lost_lock(f"lock {self.lock_id}", limit)

    def _acquire(self) -> object:
        if len(self.lock_id) > self.options.lock_key_length:
            raise InvalidOptionError(
                f"catalog option lock-key-max-length={self.options.lock_key_length}: the key of the lock "
                f"{self.lock_id!r} is longer; raise the option, and the column lock_id of "
                "paimon_distributed_locks with it"
            )
        check_characters(self.connection, f"lock {self.lock_id}", (self.lock_id,))
        started, pause = self.clock.monotonic(), _FIRST_PAUSE_MS
        while True:
            try:
                return self._try()
            except (AlreadyExistsError, UnavailableError) as err:
                if isinstance(err, UnavailableError) and not is_deadlock(err):
                    raise
                if (self.clock.monotonic() - started) * 1000 > self.options.lock_timeout_ms:
                    raise UnavailableError(
                        f"lock {self.lock_id}: another writer held it for longer than "
                        f"lock-acquire-timeout={self.options.lock_timeout_ms} ms; try again later, or look "
                        "into paimon_distributed_locks"
                    ) from err
            self.clock.sleep(pause / 1000)
            pause = min(pause * 2, max(self.options.lock_sleep_ms, 1))

    def _try(self) -> object:
        """Insert the row and return when that was, by the clock of the database. Raises AlreadyExistsError
        when somebody else holds the lock.
        """
        from sqlalchemy import text

        lock_row = {"id": self.lock_id}
        with self.connection.transaction(f"lock {self.lock_id}") as database:
            database.execute(text(RELEASE_EXPIRED[self.connection.kind]), lock_row)
        with self.connection.transaction(f"lock {self.lock_id}") as database:
            database.execute(
                text("INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (:id, :s)"),
                {**lock_row, "s": self.options.lock_timeout_ms // 1000},
            )
            result = database.execute(
                text("SELECT acquired_at FROM paimon_distributed_locks WHERE lock_id = :id"), lock_row
            )
            return result.scalar_one()

    def _release(self, acquired: object) -> bool:
        """Delete the row, and return False if somebody else had deleted it. A failure is logged: the row ends
        by its time, and what was done is done.
        """
        from sqlalchemy import text

        try:
            with self.connection.transaction(f"lock {self.lock_id}") as database:
                result = database.execute(
                    text("DELETE FROM paimon_distributed_locks WHERE lock_id = :id AND acquired_at = :at"),
                    {"id": self.lock_id, "at": acquired},
                )
                return result.rowcount != 0
        except LakeError as err:
            logger.warning("lock %s could not be released: %s; it expires by itself", self.lock_id, err)
        return True
