"""This module stores changelogs of one branch that outlive their snapshots: `changelog/changelog-<id>`.

Where `changelog.*-retained` is longer than `snapshot.*-retained`, expiry keeps what a stream needs of a
snapshot as a changelog of the same id. Ids of changelogs are below those of snapshots and have no gaps.
"""

from __future__ import annotations

import re

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.numbered import numbered
from lakecore.store.paths import TablePaths

__all__ = ["ChangelogStore"]

_CHANGELOG = re.compile(r"changelog-([0-9]+)")


@dataclass(frozen=True)
class ChangelogStore:
    """This is the directory `changelog/` of a branch. A changelog is written like the snapshot that it
    was.
    """

    file_io: FileIO
    paths: TablePaths

    def list_ids(self) -> tuple[int, ...]:
        """Return the ids, ascending. It costs a listing."""
        return numbered(_CHANGELOG, self.file_io.list(self.paths.changelog_dir))

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the changelog of that snapshot, None if there is none. Raises CorruptDataError."""
        path = self.paths.changelog(snapshot_id)
        try:
            changelog = Snapshot.from_json(self.file_io.read(path), path)
        except NotFoundError:
            return None
        if changelog.id != snapshot_id:
            raise CorruptDataError(path, f"contains the id {changelog.id} of another snapshot")
        return changelog
