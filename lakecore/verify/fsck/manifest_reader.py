"""This module reads the manifests of one branch for a pass of the check, each once or twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnavailableError
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.store.manifests import ManifestStore
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.passes import CheckPass

__all__ = ["ManifestReader"]


@dataclass(slots=True)
class ManifestReader:
    """It has the entries of the manifests of one snapshot in memory, because the next one shares most of
    them.
    """

    store: ManifestStore
    findings: Findings
    check_pass: CheckPass
    _recent: dict[str, ManifestEntries] = field(default_factory=dict)
    _used: dict[str, ManifestEntries] = field(default_factory=dict)

    def next_snapshot(self) -> None:
        """Let go of the manifests that the snapshot did not use."""
        self._recent, self._used = self._used, {}

    def close(self) -> None:
        """Let go of everything."""
        self._recent, self._used = {}, {}

    def entries(self, files: Sequence[ManifestFile], owner: str) -> ManifestEntries | None:
        """Return the entries of manifests that are of the pass, in order, or None when some manifest cannot
        be read, which is then a finding.

        `owner` is what needs them. Raises UnavailableError, TooManyFilesError.
        """
        self.check_pass.begin(files)
        parts = [self._manifest(file, owner) for file in files]
        parts_read = [part for part in parts if part is not None]
        return ManifestEntries.concat(parts_read) if len(parts_read) == len(parts) else None

    def _manifest(self, file: ManifestFile, owner: str) -> ManifestEntries | None:
        entries = self._used.get(file.file_name, self._recent.get(file.file_name))
        if entries is None:
            entries = self._read(file, owner)
        if entries is not None:
            self._used[file.file_name] = entries
        return entries

    def _read(self, file: ManifestFile, owner: str) -> ManifestEntries | None:
        path, check_pass = self.store.paths.manifest(file.file_name), self.check_pass
        self.findings.manifests += 1
        entries = check_pass.without_reading(path)
        if entries is not None:
            return entries
        if not check_pass.is_first and check_pass.is_unreadable(path):
            return None
        try:
            entries = self.store.read([file], check_pass.request)
        except UnavailableError:
            raise
        except LakeError as err:
            self.findings.failed(FindingKind.MANIFEST, path, err, owner)
            check_pass.take(path, None)
            return None
        if check_pass.is_first:
            self._compare_counts(file, path, entries, owner)
        return check_pass.take(path, entries)

    def _compare_counts(self, file: ManifestFile, path: str, entries: ManifestEntries, owner: str) -> None:
        """Compare the entries of a manifest with what its list says."""
        added = int((entries.kind == EntryKind.ADD).sum())
        if (added, len(entries) - added) != (file.num_added_files, file.num_deleted_files):
            problem = (
                f"it adds {added} files and deletes {len(entries) - added}, but its list says "
                f"{file.num_added_files} and {file.num_deleted_files} (needed by {owner})"
            )
            self.findings.add(FindingKind.MANIFEST, path, problem)
