"""This module has the protocol of a catalog that manages the versions of its tables: it commits snapshots,
rolls back and changes branches itself (Java's `supportsVersionManagement`).
"""

from __future__ import annotations

from typing import Protocol

from lakecore.metadata.snapshot import Snapshot

__all__ = ["VersionManagement"]


class VersionManagement(Protocol):
    """This is the server of a catalog, as one table needs it. It can be pickled."""

    def latest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot of a branch, None before the first. Raises UnavailableError."""

    def commit(self, branch: str, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Let the server make `snapshot` the newest after `base` (None: the first). False if another commit
        was faster. An answer that was lost is read back.

        Raises CommitUncertainError when the outcome stays unknown, and another LakeError when nothing
        happened.
        """

    def roll_back(self, branch: str, to: int | str, latest: int) -> None:
        """Let the server remove what came after a snapshot (its id) or a tag (its name), if `latest` is still
        the newest. Raises UnavailableError, NotFoundError.
        """

    def create_branch(self, name: str, tag: str | None) -> None:
        """Create a branch from a tag, or an empty one. Raises AlreadyExistsError, NotFoundError."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch. Raises NotFoundError."""

    def fast_forward(self, name: str) -> None:
        """Let main become what the branch is. Raises NotFoundError."""
