"""This module has the tally of what this process asks of storage: requests, and bytes that are read and
written.

`ConfinedFileIO`, through which all tables and records are reached, counts every operation. Bytes that are
read are those of files that are read whole, and the sizes of files that are opened as a stream, of which a
reader may take less; single ranges count as requests only. Bytes that are written are those of complete
files.
"""

from __future__ import annotations

import threading
from dataclasses import field

from lakecore.data_class import dataclass

__all__ = ["TALLY", "StorageUse", "storage_use"]


@dataclass(frozen=True, slots=True)
class StorageUse:
    """These are requests and bytes of storage."""

    requests: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: StorageUse) -> StorageUse:
        return StorageUse(
            self.requests + other.requests,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )

    def __sub__(self, other: StorageUse) -> StorageUse:
        return self + StorageUse(-other.requests, -other.bytes_read, -other.bytes_written)


@dataclass(slots=True)
class _Tally:
    """It has the counts of this process; whoever changes them holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    requests: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


TALLY = _Tally()


def storage_use() -> StorageUse:
    """Return what this process has used since it began."""
    with TALLY.lock:
        return StorageUse(TALLY.requests, TALLY.bytes_read, TALLY.bytes_written)
