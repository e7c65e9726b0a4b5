"""This module has the protocol of a catalog that decides itself which snapshot of a table is the newest."""

from __future__ import annotations

from typing import Protocol

from lakecore.metadata.snapshot import Snapshot

__all__ = ["SnapshotSource"]


class SnapshotSource(Protocol):
    """This is the server of a catalog, as one table needs it (Java's `SnapshotLoader`). It can be pickled."""

    def latest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot of a branch, None before the first. Raises UnavailableError."""
