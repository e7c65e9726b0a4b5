"""This module reads the branches of a table, which are separate lines of snapshots below
`branch/branch-<name>/`.
"""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.store.paths import MAIN_BRANCH, TablePaths

__all__ = ["BranchStore"]

_PREFIX = "branch-"


@dataclass(frozen=True)
class BranchStore:
    """It stores the branches of a table, in its directory `branch/`."""

    file_io: FileIO
    paths: TablePaths

    def list(self) -> tuple[str, ...]:
        """Return the names in order, without `main`."""
        statuses = self.file_io.list(self.paths.branches_dir)
        names = (status.name for status in statuses if status.is_dir)
        return tuple(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))

    def open(self, name: str) -> TablePaths:
        """Return the paths of the branch. Raises NotFoundError that names the existing branches."""
        if name == MAIN_BRANCH:
            return self.paths.with_branch(MAIN_BRANCH)
        branch = self.paths.with_branch(name)
        if self.file_io.stat(branch.schema_dir) is None:
            names = ", ".join((MAIN_BRANCH, *self.list()))
            raise NotFoundError(
                f"branch {name!r} of {self.paths.table_path} does not exist; available branches: {names}"
            )
        return branch
