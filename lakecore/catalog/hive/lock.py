"""This module has the lock of a table in a metastore, which Java's commits hold, too."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakecore.catalog.hive.connection import MetastoreConnection, thrift_types
from lakecore.catalog.names import TableName
from lakecore.catalog.remote.lost_answer import LostAnswerError
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError, UnavailableError
from lakecore.store.table_lock import lost_lock

__all__ = ["HiveLock"]

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 50


@dataclass(frozen=True, slots=True)
class HiveLock:
    """This is an exclusive lock of Hive's on the table, as Java's `HiveCatalogLock` takes it.

    The metastore itself releases the lock of an owner that sends nothing for `hive.txn.timeout` (5 minutes by
    default): neither Java nor lakecore sends heartbeats, so no commit may hold it longer.
    """

    connection: MetastoreConnection
    name: TableName
    timeout_ms: int
    sleep_ms: int
    clock: Clock

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock within the block. Costs three calls. Raises UnavailableError when another writer
        holds it for longer than `lock-acquire-timeout`, CommitUncertainError when the metastore ended it.
        """
        lock_id = self._acquire()
        try:
            yield
        except BaseException:
            self._release(lock_id)
            raise
        has_ended = self._has_ended(lock_id)
        self._release(lock_id)
        if has_ended:
            raise lost_lock(f"the lock {lock_id} of {self.name}", "hive.txn.timeout of the metastore")

    def _acquire(self) -> int:
        types = thrift_types()
        started, pause = self.clock.monotonic(), _FIRST_PAUSE_MS
        answer = self._request()
        lock_id = int(answer.lockid)
        try:
            while answer.state == types.LockState.WAITING:
                if (self.clock.monotonic() - started) * 1000 >= self.timeout_ms:
                    break
                pause = min(pause * 2, max(self.sleep_ms, 1))
                self.clock.sleep(pause / 1000)
                check = types.CheckLockRequest(lockid=lock_id)
                answer = self.connection.read(f"wait for the lock of {self.name}", "check_lock", check)
        except BaseException:
            self._release(lock_id)
            raise
        if answer.state != types.LockState.ACQUIRED:
            self._release(lock_id)
            raise UnavailableError(
                f"lock of {self.name}: another writer held it for longer than "
                f"lock-acquire-timeout={self.timeout_ms} ms; try again later, or look at Hive's SHOW LOCKS"
            )
        return lock_id

    def _request(self) -> Any:
        """Ask for the lock. When the answer is lost, release what the request may have got."""
        types, mark = thrift_types(), f"lakecore-{self.clock.fresh_id()}"
        component = types.LockComponent(
            type=types.LockType.EXCLUSIVE,
            level=types.LockLevel.TABLE,
            dbname=self.name.database,
            tablename=self.name.table,
            operationType=None,
        )
        request = types.LockRequest(
            component=[component], user=self.connection.user, hostname=socket.gethostname(), agentInfo=mark
        )
        try:
            return self.connection.change(f"lock {self.name}", "lock", request)
        except LostAnswerError:
            self._release_marked(mark)
            raise

    def _release_marked(self, mark: str) -> None:
        types = thrift_types()
        request = types.ShowLocksRequest(dbname=self.name.database, tablename=self.name.table)
        try:
            answer = self.connection.read(f"look at the locks of {self.name}", "show_locks", request)
        except LakeError as err:
            logger.warning("a lock of %s may be left: %s; it ends by hive.txn.timeout", self.name, err)
            return
        for lock in answer.locks or ():
            if lock.agentInfo == mark:
                self._release(int(lock.lockid))

    def _has_ended(self, lock_id: int) -> bool:
        """Return whether the metastore has ended the lock, which an answer to `unlock` does not tell. If it
        cannot be asked, a warning is logged, because what was done is done.
        """
        request = thrift_types().CheckLockRequest(lockid=lock_id)
        try:
            self.connection.read(f"look at the lock of {self.name}", "check_lock", request)
        except NotFoundError:
            return True
        except LakeError as err:
            logger.warning("it is not known whether the lock %d of %s had ended: %s", lock_id, self.name, err)
        return False

    def _release(self, lock_id: int) -> None:
        """Release the lock; a second request finds none. A failure is logged: the metastore ends the lock by
        its time.
        """
        request = thrift_types().UnlockRequest(lockid=lock_id)
        try:
            self.connection.read(f"unlock {self.name}", "unlock", request)
        except NotFoundError:
            logger.info("the lock %d of %s had ended before it was released", lock_id, self.name)
        except LakeError as err:
            logger.warning("the lock %d of %s was not released: %s", lock_id, self.name, err)
