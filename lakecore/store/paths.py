"""This module defines the layout of a table's directory.

A branch has its own `schema`, `snapshot`, `tag`, `changelog` and `consumer` directories; data, manifest,
index and statistics files of every branch are in the main table's directories.
"""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.fs.resolve import plain_path
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import POSTPONE_BUCKET, TableOptions

__all__ = ["MAIN_BRANCH", "TablePaths"]

MAIN_BRANCH = "main"


@dataclass(frozen=True, slots=True)
class TablePaths:
    """These are the paths of one table seen through one branch. `table_path` is a plain path without a
    slash at the end.
    """

    table_path: str
    branch: str = MAIN_BRANCH

    def with_branch(self, branch: str) -> TablePaths:
        """Return the paths of the same table seen through another branch."""
        return TablePaths(self.table_path, branch)

    @property
    def root(self) -> str:
        """Return the directory of the files that belong to the branch."""
        if self.branch == MAIN_BRANCH:
            return self.table_path
        return f"{self.branches_dir}/branch-{_name('branch', self.branch)}"

    @property
    def schema_dir(self) -> str:
        return f"{self.root}/schema"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.root}/snapshot"

    @property
    def changelog_dir(self) -> str:
        return f"{self.root}/changelog"

    @property
    def tag_dir(self) -> str:
        return f"{self.root}/tag"

    @property
    def consumer_dir(self) -> str:
        return f"{self.root}/consumer"

    @property
    def branches_dir(self) -> str:
        return f"{self.table_path}/branch"

    def branch_of(self, path: str) -> str:
        """Return the branch in whose directory a file is, `main` for all other files."""
        folder = f"{self.branches_dir}/branch-"
        return path.removeprefix(folder).partition("/")[0] if path.startswith(folder) else MAIN_BRANCH

    @property
    def manifest_dir(self) -> str:
        return f"{self.table_path}/manifest"

    @property
    def index_dir(self) -> str:
        return f"{self.table_path}/index"

    @property
    def statistics_dir(self) -> str:
        return f"{self.table_path}/statistics"

    @property
    def latest_hint(self) -> str:
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        return f"{self.snapshot_dir}/EARLIEST"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        """Return the path of a tag. Raises InvalidInputError for a name that cannot be a file name."""
        return f"{self.tag_dir}/tag-{_name('tag', name)}"

    def consumer(self, consumer_id: str) -> str:
        """Return the path of a consumer. Raises InvalidInputError for a name that cannot be a file name."""
        return f"{self.consumer_dir}/consumer-{_name('consumer', consumer_id)}"

    def changelog(self, snapshot_id: int) -> str:
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, a manifest list or an index manifest."""
        return f"{self.manifest_dir}/{name}"

    def index_file(self, name: str) -> str:
        return f"{self.index_dir}/{name}"

    def statistics(self, name: str) -> str:
        return f"{self.statistics_dir}/{name}"

    def bucket_dir(self, partition_path: str, bucket: int, options: TableOptions) -> str:
        """Return the directory of a bucket. `partition_path` is `dt=1/hh=2`, or empty for a table without
        partitions.
        """
        bucket_name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        parts = (self.table_path, (options.path_directory or "").strip("/"), partition_path, bucket_name)
        return "/".join(part for part in parts if part)

    def data_file(self, bucket_dir: str, file: DataFile) -> str:
        """Return the path of a data or changelog file: its external path, else its place in the bucket."""
        if file.external_path is not None:
            return plain_path(file.external_path)
        return f"{bucket_dir}/{file.file_name}"

    def directory_of(self, bucket_dir: str, file: DataFile) -> str:
        """Return the directory of a data file, in which its extra files are, too."""
        return self.data_file(bucket_dir, file).rpartition("/")[0]

    def extra_files(self, bucket_dir: str, file: DataFile) -> tuple[str, ...]:
        """Return the paths of the extra files of `file`, which are in its directory and are deleted with
        it.
        """
        directory = self.directory_of(bucket_dir, file)
        return tuple(f"{directory}/{name}" for name in file.extra_files)

    def all_files(self, bucket_dir: str, file: DataFile) -> tuple[str, ...]:
        """Return the path of `file` and those of its extra files."""
        return (self.data_file(bucket_dir, file), *self.extra_files(bucket_dir, file))


def _name(kind: str, name: str) -> str:
    if not name.strip() or name in (".", "..") or any(char in name for char in "/\\\0"):
        raise InvalidInputError(
            f"{name!r} is not a {kind} name: it must not be blank and must not contain / \\ or NUL"
        )
    return name
