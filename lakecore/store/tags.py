"""This module stores the tags of one branch, which are snapshots kept by name in `tag/tag-<name>`."""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.tag import Tag
from lakecore.store.paths import TablePaths

__all__ = ["TagStore"]

_PREFIX = "tag-"


@dataclass(frozen=True)
class TagStore:
    """It stores the tags of a branch, in its directory `tag/`."""

    file_io: FileIO
    paths: TablePaths

    def load(self, name: str) -> Snapshot:
        """Return the snapshot of a tag. Raises NotFoundError naming the existing tags, CorruptDataError."""
        return self.open(name).snapshot

    def open(self, name: str) -> Tag:
        """Return the tag, with its time to live. Raises the same errors as `load`."""
        path = self.paths.tag(name)
        try:
            return Tag.from_json(self.file_io.read(path), path, name)
        except NotFoundError as err:
            names = ", ".join(self.list()) or "none"
            raise NotFoundError(
                f"tag {name!r} of {self.paths.root} does not exist; available tags: {names}"
            ) from err

    def list(self) -> tuple[str, ...]:
        """Return the names of the tags in order. Directories are skipped, such as `tag-success-file`."""
        statuses = self.file_io.list(self.paths.tag_dir)
        names = (status.name for status in statuses if not status.is_dir)
        return tuple(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
