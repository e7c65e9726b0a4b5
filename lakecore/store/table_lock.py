"""This module has the protocol of a lock that writers of one table share, where the catalog has one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from lakecore.errors import CommitUncertainError

__all__ = ["TableLock", "lost_lock"]


class TableLock(Protocol):
    """This is the lock of one table: whoever publishes a snapshot holds it, Java as well as lakecore. It can
    be pickled.
    """

    def acquire(self) -> AbstractContextManager[None]:
        """Hold the lock within the block. Raises UnavailableError when another writer does not release it,
        and CommitUncertainError after a block without an error when another writer took it over meanwhile.
        """


def lost_lock(lock: str, limit: str) -> CommitUncertainError:
    """Return the error for a change during which a lock ended: it was held for longer than `limit`."""
    return CommitUncertainError(
        f"{lock}: it ended before the change did, for that took longer than {limit}, so that another writer "
        "may have changed the same: delete nothing, look whether the change is there, and repeat it if it is "
        "not"
    )
