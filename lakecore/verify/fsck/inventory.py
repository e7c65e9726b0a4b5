"""The directories of a table against what must be there: missing files, other sizes, files nobody refers to.

Each directory is listed once; no file is looked at on its own. Memory: one directory, the paths of
metadata files, and the names of directories.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.metadata.dedicated_columns import is_blob_pack
from lakecore.store.paths import TablePaths
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.references import DataReference, ExpectedFile, References

__all__ = ["Inventory"]

_HOUR_MS = 3_600_000
_OWN = {
    "schema": re.compile(r"schema-\d+"),
    "snapshot": re.compile(r"snapshot-\d+|LATEST|EARLIEST"),
    "changelog": re.compile(r"changelog-\d+|LATEST|EARLIEST"),
    "tag": re.compile(r"tag-.+"),
    "consumer": re.compile(r"consumer-.+"),
    "service": re.compile(r".+"),
}
"""Directories of a branch whose files are known by name (rule of the format)."""
_MARKERS = ("_SUCCESS",)


@dataclass(slots=True)
class Inventory:
    """It compares one table with its directories. `older_than_ms`: younger files are no orphans, for they
    may belong to a commit that is still to come; None: files of any age are.
    """

    file_io: FileIO
    paths: TablePaths
    findings: Findings
    now_ms: int
    older_than_ms: int | None = None
    _index: dict[str, dict[str, ExpectedFile]] | None = None
    _names: set[str] = field(default_factory=set)
    """These are the directories that were listed."""

    def check_buckets(
        self, references: References, open_file: Callable[[DataReference], None] | None
    ) -> None:
        """Check the data files that were referred to, bucket by bucket. `open_file` gets each data file that
        exists. Several calls must have other directories each.
        """
        if self._index is None:
            self._index = self._by_directory(references.files)
        for bucket in references.buckets():
            self._check_bucket(bucket, self._index, self._names, open_file)

    def check_rest(self) -> None:
        """Check everything else, after all data files."""
        names, index = self._names, self._index or {}
        for directory, expected in index.items():
            if directory not in names:
                names.add(directory)
                inside = directory.startswith(f"{self.paths.table_path}/")
                self._compare(self._files(directory), expected.items(), orphans=inside)
        self._walk(self.paths.table_path, names, "")

    def _by_directory(self, files: dict[str, ExpectedFile]) -> dict[str, dict[str, ExpectedFile]]:
        index: dict[str, dict[str, ExpectedFile]] = defaultdict(dict)
        for path, expected in files.items():
            index[path.rpartition("/")[0]][path] = expected
        return index

    def _check_bucket(
        self,
        bucket: list[DataReference],
        index: dict[str, dict[str, ExpectedFile]],
        names: set[str],
        open_file: Callable[[DataReference], None] | None,
    ) -> None:
        by_directory: dict[str, list[DataReference]] = defaultdict(list)
        for reference in bucket:
            by_directory[reference.path.rpartition("/")[0]].append(reference)
        for directory, references in by_directory.items():
            expected = list(index.get(directory, {}).items())
            for reference in references:
                expected.append((reference.path, ExpectedFile(reference.file.file_size, reference.owner)))
                extras = (f"{directory}/{name}" for name in reference.file.extra_files)
                expected += [(path, ExpectedFile(None, reference.owner)) for path in extras]
            self.findings.data_files += len(references)
            inside = directory.startswith(
                f"{self.paths.table_path}/"
            )  # elsewhere other tables may have files
            bad = self._compare(self._files(directory), expected, orphans=inside and directory not in names)
            names.add(directory)
            for reference in references if open_file is not None else ():
                if reference.path not in bad and open_file is not None:
                    open_file(reference)

    def _compare(
        self, present: list[FileStatus], expected: Iterable[tuple[str, ExpectedFile]], *, orphans: bool = True
    ) -> set[str]:
        """Report differences; the paths of expected files that are missing or have another size."""
        sizes = {status.path: status.size for status in present}
        bad, good = set(), set()
        for path, what in expected:
            good.add(path)
            size = sizes.get(path)
            if size is None:
                bad.add(path)
                self.findings.add(_kind(path), path, f"it is missing (needed by {what.owner})")
            elif what.size is not None and size != what.size:
                bad.add(path)
                problem = (
                    f"it has {size} bytes, but its description says {what.size} (needed by {what.owner})"
                )
                self.findings.add(_kind(path), path, problem)
        for status in present if orphans else ():
            if status.path not in good and status.name not in _MARKERS:
                self._orphan(status)
        return bad

    def _orphan(self, status: FileStatus) -> None:
        if is_blob_pack(status.path):
            return
        if self.older_than_ms is not None and not 0 < status.mtime_ms < self.older_than_ms:
            self.findings.young_orphans += 1
            self.findings.young_bytes += status.size
            return
        age = "is of unknown age"
        if status.mtime_ms:
            age = f"is {max(0, self.now_ms - status.mtime_ms) / _HOUR_MS:.1f} hours old"
        problem = f"no snapshot, tag or changelog refers to it; it has {status.size} bytes and {age}"
        self.findings.add(FindingKind.ORPHAN, status.path, problem)

    def _files(self, directory: str) -> list[FileStatus]:
        return [status for status in self.file_io.list(directory) if not status.is_dir]

    def _walk(self, directory: str, names: set[str], place: str) -> None:
        """List the directories that nothing refers to. `place` is the path below the table, or below its
        branch.
        """
        for status in self.file_io.list(directory):
            below = f"{place}/{status.name}".lstrip("/")
            if status.is_dir and status.path not in names:
                self._walk(status.path, names, _below_branch(below))
            elif not status.is_dir and not _belongs(below):
                self._orphan(status)


def _below_branch(place: str) -> str:
    return "" if re.fullmatch(r"branch/branch-[^/]+", place) else place


def _belongs(place: str) -> bool:
    """Return whether a file that nothing refers to belongs at its place."""
    directory, _, name = place.rpartition("/")
    if name in _MARKERS or directory == "tag/tag-success-file" or directory.startswith("service"):
        return True
    pattern = _OWN.get(directory)
    return pattern is not None and pattern.fullmatch(name) is not None


def _kind(path: str) -> FindingKind:
    directory, _, name = path.rpartition("/")
    if directory.endswith("/manifest"):
        return FindingKind.MANIFEST
    if directory.endswith("/statistics"):
        return FindingKind.STATISTICS
    return FindingKind.INDEX_FILE if name.startswith("index-") else FindingKind.DATA_FILE
