"""This module has the protocol of a lock that writers of one table share, where the catalog has one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["TableLock"]


class TableLock(Protocol):
    """This is the lock of one table: whoever publishes a snapshot holds it, Java as well as lakecore. It can
    be pickled.
    """

    def acquire(self) -> AbstractContextManager[None]:
        """Hold the lock within the block. Raises UnavailableError when another writer does not release it."""
