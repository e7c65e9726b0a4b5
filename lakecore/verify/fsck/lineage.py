"""This module checks one branch of a table, from hints to manifests: it is what fsck checks without opening
data files.

The files that must exist follow from the state at the first snapshot and what each later one added, so each
manifest is decoded once or twice whatever the number of snapshots. Checking every state on its own (`deep`)
also finds a snapshot whose base manifests disagree with its predecessor; it decodes all manifests of all
snapshots.
"""

from __future__ import annotations

import re
from dataclasses import field
from itertools import pairwise

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError, UnavailableError, printable
from lakecore.format.manifest.index_manifests import decode_index_manifest
from lakecore.fs.file_io import FileIO
from lakecore.fs.resolve import plain_path
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import (
    duplicate_adds,
    duplicate_problem,
    live_entries,
    remaining_deletes,
)
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.options import INDEX_BESIDE_DATA, PK_CLUSTERING_OVERRIDE
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.tags import TagStore
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.index_files import IndexFileCheck
from lakecore.verify.fsck.manifest_reader import ManifestReader
from lakecore.verify.fsck.passes import CheckPass
from lakecore.verify.fsck.references import References
from lakecore.verify.fsck.totals import Totals

__all__ = ["Lineage", "PassState"]

_CHANGELOG = re.compile(r"changelog-([0-9]+)")


@dataclass(slots=True)
class PassState:
    """It is what the branches of a table share in one pass."""

    check_pass: CheckPass
    totals: Totals
    """They are shared by all passes."""
    states: set[tuple[str, str]] = field(default_factory=set)
    """The states that are checked already, as pairs of manifest lists: tags and branches share those of
    snapshots.
    """


@dataclass(slots=True)
class Lineage:
    """Checks one branch and adds what it refers to. `paths` are those of the branch. Entries of data files
    and index files are those of the buckets of the pass.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    references: References
    findings: Findings
    deep: bool
    state: PassState
    schemas: SchemaStore = field(init=False)
    _manifests: ManifestReader = field(init=False)
    _total: int | None = None
    _live: ManifestEntries | None = None
    """What is live at the snapshot that is checked, where that is known."""
    latest: tuple[tuple[tuple[IndexFile, str], ...], ManifestEntries, str] | None = None
    """This is of the latest snapshot, where it can be read: index files with their paths, live files, its
    name.
    """
    _placed: tuple[tuple[IndexFile, str], ...] | None = ()
    _indexes: IndexFileCheck = field(init=False)

    def __post_init__(self) -> None:
        self.schemas = SchemaStore(self.file_io, self.paths)
        self._indexes = IndexFileCheck(self.file_io, self.findings)
        store = ManifestStore(self.file_io, self.paths, self.schema)
        self._manifests = ManifestReader(store, self.findings, self.state.check_pass)

    def check(self, ids: tuple[int, ...]) -> None:
        """Check everything. `ids` are those of the snapshots that were found."""
        if self.state.check_pass.is_first:
            self._check_hints(ids)
        before: int | None = None
        for snapshot_id in ids:
            path = self.paths.snapshot(snapshot_id)
            if before is not None and snapshot_id != before + 1:
                problem = f"snapshots {before + 1} to {snapshot_id - 1} are missing before it"
                self.findings.add(FindingKind.SNAPSHOT, path, problem)
                self._total = None
            whole = self.deep or before != snapshot_id - 1 or snapshot_id == ids[-1]
            self._check_file(path, f"snapshot {snapshot_id}", whole=whole, first=snapshot_id == ids[0])
            before = snapshot_id
        if self._live is not None and self._placed is not None:
            self.latest = self._placed, self._live, self._owner(f"snapshot {before}")
        for tag in TagStore(self.file_io, self.paths).list():
            self._total = None
            self._check_file(self.paths.tag(tag), f"tag {tag}", whole=True)
        self._check_changelogs()
        self._manifests.close()

    def _owner(self, name: str) -> str:
        return name if self.paths.branch == "main" else f"{name} of branch {self.paths.branch}"

    def _check_hints(self, ids: tuple[int, ...]) -> None:
        if not ids:
            return
        for path, right, needed in (
            (self.paths.latest_hint, ids[-1], self.paths.branch == "main"),
            (self.paths.earliest_hint, ids[0], False),
        ):
            try:
                text = self.file_io.read(path).decode(errors="replace").strip()
            except NotFoundError:
                if needed:
                    problem = f"it is missing, so readers must list the directory; the snapshot is {right}"
                    self.findings.add(FindingKind.HINT, path, problem)
                continue
            if text != str(right) and not (path == self.paths.earliest_hint and _after_gap(text, ids)):
                self.findings.add(
                    FindingKind.HINT, path, f"it says '{printable(text, 40)}', but the snapshot is {right}"
                )

    def _check_file(self, path: str, name: str, *, whole: bool, first: bool = False) -> None:
        """Check a snapshot or tag file. `first`: it is the first snapshot of its branch."""
        self.findings.snapshots += 1
        owner = self._owner(name)
        try:
            snapshot = Snapshot.from_json(self.file_io.read(path), path)
            if not name.startswith("tag") and not path.endswith(f"-{snapshot.id}"):
                raise CorruptDataError(path, f"the file says that it is snapshot {snapshot.id}")
        except UnavailableError:
            raise
        except LakeError as err:
            self.findings.failed(FindingKind.SNAPSHOT, path, err, owner)
            self._total = None
            return
        self._check_schemas({snapshot.schema_id}, owner)
        self._check_snapshot(snapshot, path, owner, whole=whole)
        tagged = name.startswith("tag")
        self._check_side_files(
            snapshot, owner, changelog=not tagged and not (first and self._lost_changelog(snapshot, path))
        )
        self._manifests.next_snapshot()

    def _lost_changelog(self, snapshot: Snapshot, path: str) -> bool:
        """Return whether the changelog of the first snapshot of a branch is gone, which no reader needs.

        Rule of the format: a rollback to a tag, and a branch from one, make a snapshot of a tag, whose
        changelog went when the tagged snapshot expired.
        """
        name = snapshot.changelog_manifest_list
        if name is None or self.file_io.stat(self.paths.manifest(name)) is not None:
            return False
        tags = TagStore(self.file_io, self.paths)
        if not any(_is_tagged(tags, tag, snapshot) for tag in tags.list()):
            problem = "its changelog is missing; that is right if the snapshot was made from a tag"
            self.findings.add(FindingKind.HINT, path, problem)
        return True

    def _check_schemas(self, ids: set[int], owner: str) -> None:
        for schema_id in sorted(ids):
            path = self.paths.schema(schema_id)
            try:
                self.schemas.load(schema_id)
            except UnavailableError:
                raise
            except NotFoundError:
                self.findings.add(FindingKind.SCHEMA, path, f"it is missing (needed by {owner})")
            except LakeError as err:
                self.findings.failed(FindingKind.SCHEMA, path, err, owner)

    def _check_snapshot(self, snapshot: Snapshot, path: str, owner: str, *, whole: bool) -> None:
        self._live = None
        lists = snapshot.state
        is_listed = lists in self.state.states
        self.state.states.add(lists)
        base = self._list(lists[0], snapshot.base_manifest_list_size, owner)
        delta = self._list(lists[1], snapshot.delta_manifest_list_size, owner)
        if base is None or delta is None:
            self._total = None
            return
        if is_listed and not self.deep:
            self._total = snapshot.total_record_count
            return
        changes = self._manifests.entries(delta, owner)
        if changes is None:
            self._total = None
            return
        added = _signed_rows(changes)
        totals = self.state.totals
        totals.add(path, "deltaRecordCount", snapshot.delta_record_count, added)
        is_empty = not sum(file.entry_count for file in delta)
        replaced = snapshot.commit_kind is CommitKind.OVERWRITE and is_empty  # a repair's state
        if whole or replaced:
            self._check_state(snapshot, path, owner, (base, changes))
            if not replaced:
                previous = self.paths.snapshot(snapshot.id - 1)
                totals.follow(path, previous, snapshot.total_record_count, self._total, added)
        else:
            self._expect(changes.select(changes.kind == EntryKind.ADD), owner)
            if self._total is not None:
                totals.add(path, "totalRecordCount", snapshot.total_record_count, added, self._total)
        self._total = snapshot.total_record_count

    def _check_state(
        self,
        snapshot: Snapshot,
        path: str,
        owner: str,
        parts: tuple[tuple[ManifestFile, ...], ManifestEntries],
    ) -> None:
        """Check everything live at a snapshot."""
        before = self._manifests.entries(parts[0], owner)
        if before is None:
            return
        entries = ManifestEntries.concat([before, parts[1]])
        try:
            files, doubles = live_entries(entries, strict=False), duplicate_adds(entries)
            for entry in doubles.rows():
                self.findings.add(FindingKind.MANIFEST, path, duplicate_problem(entry))
            for name in remaining_deletes(entries).names():
                problem = f"it deletes {name.decode(errors='replace')}, which it does not have"
                self.findings.add(FindingKind.MANIFEST, path, problem)
            if not len(doubles):
                rows = int(files.row_count.sum())
                self.state.totals.add(path, "totalRecordCount", snapshot.total_record_count, rows)
            self._expect(files, owner)
            self._live = files
            if self.schema.primary_keys and not PK_CLUSTERING_OVERRIDE.read(self.schema.options):
                self._check_levels(files, path, owner)
        except CorruptDataError as err:
            self.findings.failed(FindingKind.MANIFEST, path, err, owner)

    def _check_levels(self, files: ManifestEntries, path: str, owner: str) -> None:
        """Check that files of a level above 0 share no key. The cost is that of decoding two keys per
        file.
        """
        order_of = key_order(self.schema.key_type)
        upper = files.select((files.level > 0) & (files.bucket >= 0))
        order = np.lexsort((upper.level, upper.bucket, upper.partition))
        places = np.stack((upper.partition, upper.bucket, upper.level), axis=1)[order]
        cuts = np.flatnonzero((places[1:] != places[:-1]).any(axis=1)) + 1
        for rows in np.split(order, cuts) if len(order) else ():
            try:
                ranges = sorted(
                    (order_of(f.min_key), order_of(f.max_key), f.file_name) for f in upper.files(rows)
                )
            except CorruptDataError as err:
                self.findings.failed(FindingKind.MANIFEST, path, err, owner)
                continue
            where = f"level {int(upper.level[rows[0]])} of bucket {int(upper.bucket[rows[0]])}"
            for left, right in pairwise(ranges):
                if left[1] >= right[0]:
                    problem = f"{left[2]} and {right[2]} overlap on {where}"
                    self.findings.add(FindingKind.LEVELS, path, problem)

    def _check_side_files(self, snapshot: Snapshot, owner: str, *, changelog: bool) -> None:
        """Index and statistics of a snapshot, and its changelog: that goes with the snapshot, not
        its tags.
        """
        if snapshot.changelog_manifest_list is not None and changelog:
            self._check_changelog(
                snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, owner
            )
        if snapshot.statistics is not None:
            self.references.expect(self.paths.statistics(snapshot.statistics), None, owner)
        self._placed = () if snapshot.index_manifest is None else None
        if snapshot.index_manifest is None:
            return
        path = self.paths.manifest(snapshot.index_manifest)
        is_referenced = path in self.references.files
        if is_referenced and self._live is None:
            return
        self.references.expect(path, None, owner)
        try:
            check_pass = self.state.check_pass
            placed = tuple(
                (file, self._index_path(file))
                for file in decode_index_manifest(self.file_io.read(path), path)
                if check_pass.is_first or check_pass.has(file.partition, file.bucket)
            )
            for file, place in placed:
                self.references.expect(place, file.file_size, owner)
            placed = tuple(one for one in placed if check_pass.has(one[0].partition, one[0].bucket))
            self._indexes.check(placed, path, owner, self._live)
            self._placed = placed
        except UnavailableError:
            raise
        except LakeError as err:
            self.findings.failed(FindingKind.INDEX_FILE, path, err, owner)

    def _index_path(self, file: IndexFile) -> str:
        """Return the path of an index file: in `index/`, or with the data (option
        index-file-in-data-file-dir), or where the entry says.
        """
        if file.external_path is not None:
            return plain_path(file.external_path)
        if INDEX_BESIDE_DATA.read(self.schema.options):
            beside = f"{self.references.directory(file.partition, file.bucket)}/{file.file_name}"
            if self.file_io.stat(beside) is not None:
                return beside
        return self.paths.index_file(file.file_name)

    def _check_changelog(self, name: str, size: int | None, owner: str) -> None:
        files = self._list(name, size, owner)
        entries = None if files is None else self._manifests.entries(files, owner)
        if entries is not None:
            self._expect(entries.select(entries.kind == EntryKind.ADD), owner, changelog=True)

    def _check_changelogs(self) -> None:
        """Check changelogs that outlive their snapshots. Their data lists may be gone (rule of the
        format).
        """
        for status in self.file_io.list(self.paths.changelog_dir):
            match = _CHANGELOG.fullmatch(status.name)
            if match is None:
                continue
            owner = self._owner(f"changelog {match[1]}")
            try:
                snapshot = Snapshot.from_json(self.file_io.read(status.path), status.path)
            except (CorruptDataError, NotFoundError) as err:  # one that is gone has expired just now
                self.findings.failed(FindingKind.SNAPSHOT, status.path, err, owner)
                continue
            if snapshot.changelog_manifest_list is not None:
                self._check_changelog(
                    snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, owner
                )
            elif snapshot.commit_kind is not CommitKind.COMPACT and self._has_delta(snapshot):
                self._check_changelog(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, owner)
            self._keep_lists(snapshot, owner)

    def _has_delta(self, snapshot: Snapshot) -> bool:
        return self.file_io.stat(self.paths.manifest(snapshot.delta_manifest_list)) is not None

    def _keep_lists(self, snapshot: Snapshot, owner: str) -> None:
        """Expect the lists of an expired snapshot that still exist; they belong to its changelog."""
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            path = self.paths.manifest(name)
            if self.file_io.stat(path) is None or path in self.references.files:
                continue
            for file in self._list(name, None, owner, whole=False) or ():
                place = self.paths.manifest(file.file_name)
                if self.file_io.stat(place) is not None:
                    self.references.expect(place, file.file_size, owner)

    def _expect(self, files: ManifestEntries, owner: str, *, changelog: bool = False) -> None:
        self._check_schemas(set(np.unique(files.schema_id).tolist()), owner)
        bad = []
        for partition in np.unique(files.partition).tolist():
            try:
                self.references.directory(files.partitions[partition], 0)
            except CorruptDataError as err:
                self.findings.failed(FindingKind.MANIFEST, err.path, err, owner)
                bad.append(partition)
        if bad:
            files = files.select(~np.isin(files.partition, bad))
        self.references.expect_data(files, owner, self.schemas, changelog=changelog)

    def _list(
        self, name: str, size: int | None, owner: str, *, whole: bool = True
    ) -> tuple[ManifestFile, ...] | None:
        """Return the lines of a manifest list; with `whole`, its manifests must exist."""
        path = self.paths.manifest(name)
        self.references.expect(path, size, owner)
        try:
            files = self._manifests.store.read_list(name)
            for file in files if whole else ():
                self.references.expect(self.paths.manifest(file.file_name), file.file_size, owner)
            return files
        except UnavailableError:
            raise
        except LakeError as err:
            self.findings.failed(FindingKind.MANIFEST, path, err, owner)
            return None


def _after_gap(text: str, ids: tuple[int, ...]) -> bool:
    """Return whether EARLIEST names the start of the ids without a gap that end with the latest, which is
    also right.
    """
    starts = [right for left, right in pairwise(ids) if right != left + 1]
    return bool(starts) and text == str(starts[-1])


def _signed_rows(entries: ManifestEntries) -> int:
    signs = np.where(entries.kind == EntryKind.ADD, 1, -1)
    return int((entries.row_count * signs).sum())


def _is_tagged(tags: TagStore, name: str, snapshot: Snapshot) -> bool:
    try:
        tagged = tags.load(name)
    except UnavailableError:
        raise
    except LakeError:
        return False  # the check of tags reports it
    return (tagged.id, tagged.base_manifest_list) == (snapshot.id, snapshot.base_manifest_list)
