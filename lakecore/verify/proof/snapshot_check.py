"""A snapshot that is about to be published, read back: is it the one before, changed as the commit says?

`commit_check` looks at what is given to the committer. Between that and the snapshot are lists, and manifests
that are merged, also of indexes: here they are read from their bytes. It costs a read of the lists and of the
manifests that are new or that the new ones stand for (of more than a million entries several reads), and some
30 us a file of the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, FileSource, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import IndexFile
from lakecore.metadata.manifest.live_entries import (
    entries_only_in,
    identity_hash,
    live_and_deletes,
    live_entries,
    with_kind,
)
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.manifest.manifest_stats import describe_manifest
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.verify.rules.table_rules import TableRules

__all__ = ["SnapshotCheck"]

ENTRIES_AT_ONCE = 1 << 20
"""So many entries of manifests are compared at once. This takes some 1 kB an entry. Of more entries,
manifests are read several times.
"""
_DESCRIPTION = (
    "total_buckets", "schema_id", "file_size", "row_count", "min_sequence", "max_sequence",
    "delete_row_count", "first_row_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SnapshotCheck:
    """It checks one commit. `overwrites` tells that it adds and removes files as an overwrite does."""

    messages: Sequence[CommitMessage]
    overwrites: bool = False

    def __call__(self, planned: Snapshot, latest: Snapshot | None, manifests: ManifestStore) -> None:
        """Check the snapshot. Raises ProofError if `planned` is not `latest` with the commit applied."""
        _check_kind(planned, latest, CommitKind.OVERWRITE if self.overwrites else CommitKind.COMPACT)
        lists = () if latest is None else (latest.base_manifest_list, latest.delta_manifest_list)
        before = [line for name in lists for line in manifests.read_list(name)]
        _check_base(before, manifests.read_list(planned.base_manifest_list), manifests)
        delta = _entries(manifests.read_list(planned.delta_manifest_list), manifests)
        numbers = _numbers_of_files(manifests, planned)
        self._check_delta(delta.rows(), numbers)
        self._check_changelog(planned, manifests)
        self._check_indexes(planned, latest, manifests)
        _check_counts(planned, latest, delta)

    def _check_delta(self, rows: Sequence[ManifestEntry], number: int | None) -> None:
        """Check the delta. `number` is the sequence number that new files without one get; None: they get
        none.
        """
        expected = Counter(_entry_key(_number(entry, number)) for entry in self._expected_entries())
        actual = Counter(_entry_key(entry) for entry in rows)
        for (_, bucket, _, kind, name, *_), count in ((actual - expected) + (expected - actual)).items():
            what = "adds" if kind is EntryKind.ADD else "removes"
            _refuse(f"{what} {name} of bucket {bucket}, or describes it, otherwise than was proven ({count})")
        kinds = [entry.kind for entry in rows]
        if kinds != sorted(kinds, reverse=True):
            _refuse("adds files before it removes others")

    def _expected_entries(self) -> Iterable[ManifestEntry]:
        for message in self.messages:
            removed_files = message.deleted_files if self.overwrites else message.compact_before
            come = message.new_files if self.overwrites else message.compact_after
            for kind, files in ((EntryKind.DELETE, removed_files), (EntryKind.ADD, come)):
                yield from (_entry(kind, message, file) for file in files)

    def _check_changelog(self, planned: Snapshot, manifests: ManifestStore) -> None:
        name = planned.changelog_manifest_list
        rows = [] if name is None else _entries(manifests.read_list(name), manifests).rows()
        expected = [
            _entry(EntryKind.ADD, message, file)
            for message in self.messages
            for file in (message.changelog_files if self.overwrites else message.compact_changelog)
        ]
        if Counter(map(_entry_key, rows)) != Counter(map(_entry_key, expected)):
            _refuse(
                f"names {len(rows)} changelog files, and {len(expected)} were proven, or others than these"
            )
        if (planned.changelog_record_count or 0) != sum(entry.file.row_count for entry in expected):
            _refuse(f"counts {planned.changelog_record_count} changes")

    def _check_indexes(self, planned: Snapshot, latest: Snapshot | None, manifests: ManifestStore) -> None:
        before = () if latest is None else manifests.read_index(latest.index_manifest)
        added: list[IndexFile] = []
        removed: set[str] = set()
        for message in self.messages:
            new, old = message.compact_new_index_files, message.compact_deleted_index_files
            if self.overwrites:
                new, old = message.new_index_files, message.deleted_index_files
            added += new
            removed.update(file.file_name for file in old)
        expected = [*(file for file in before if file.file_name not in removed), *added]
        actual = manifests.read_index(planned.index_manifest)
        if sorted(expected, key=_index_key) != sorted(actual, key=_index_key):
            _refuse(f"has {len(actual)} index files where {len(expected)} are due, or others than these")


def _check_kind(planned: Snapshot, latest: Snapshot | None, kind: CommitKind) -> None:
    due = 1 if latest is None else latest.id + 1
    if planned.id != due:
        _refuse(f"has id {planned.id} where {due} is due")
    if planned.commit_kind is not kind:
        _refuse(f"is of kind {planned.commit_kind.value} where {kind.value} is due")
    if latest is not None and (planned.next_row_id or 0) < (latest.next_row_id or 0):
        _refuse(f"gives row ids from {planned.next_row_id} on again")


def _check_base(
    before: Sequence[ManifestFile], after: Sequence[ManifestFile], manifests: ManifestStore
) -> None:
    """Check that the new base means what the lists of the snapshot before meant."""
    if len({line.file_name for line in after}) != len(after):
        _refuse("names a manifest twice in its base")
    lines = {line.file_name: line for line in before}
    unchanged = {line.file_name for line in after if lines.get(line.file_name) == line}
    old = [line for line in before if line.file_name not in unchanged]
    new = [line for line in after if line.file_name not in unchanged]
    there = [line for line in before if line.file_name in unchanged]
    read_new = partial(_entries, manifests=manifests)
    count = sum(line.entry_count for line in (*old, *new))
    shares = max(1, -(-count // ENTRIES_AT_ONCE))
    for number in range(shares):
        _check_share(
            _Share(manifests.read, old, number, shares),
            _Share(read_new, new, number, shares),
            _Share(manifests.read, there, number, shares),
        )


@dataclass(frozen=True, slots=True)
class _Share:
    """It has the entries of some manifests whose identities have hashes of one share. All entries of an
    identity are in one share, so that each share can be compared alone.
    """

    read: Callable[[Sequence[ManifestFile]], ManifestEntries]
    lines: Sequence[ManifestFile]
    number: int
    shares: int

    def entries(self) -> ManifestEntries:
        if self.shares == 1:
            return self.read(self.lines)
        return ManifestEntries.concat([self._of(self.read([line])) for line in self.lines])

    def _of(self, entries: ManifestEntries) -> ManifestEntries:
        own = identity_hash(entries) % np.uint64(self.shares) == self.number
        return entries.select(own).own_copy()


def _check_share(old: _Share, new: _Share, there: _Share) -> None:
    """Compare the entries of manifests that the new base lacks with those of new manifests, and look for
    removed files in the manifests that stay.
    """
    live_before, deletes_before = live_and_deletes(old.entries())
    live_after, deletes_after = live_and_deletes(new.entries())
    _check_same(live_before, live_after)
    dropped = _dropped_deletes(deletes_before, deletes_after)
    if not len(dropped):
        return
    if len(entries_only_in(dropped, live_entries(there.entries(), strict=False))) != len(dropped):
        _refuse("has a base that brings removed files back")


def _dropped_deletes(old: ManifestEntries, new: ManifestEntries) -> ManifestEntries:
    """Return, as adds, the pending deletes that `new` lacks. This is right where no manifest adds these
    files.
    """
    before, after = (with_kind(deletes, EntryKind.ADD) for deletes in (old, new))
    if len(entries_only_in(after, before)):
        _refuse("has a base that removes files which the snapshot before did not")
    return entries_only_in(before, after)


def _check_same(old: ManifestEntries, new: ManifestEntries) -> None:
    for lost, what in ((entries_only_in(old, new), "lacks"), (entries_only_in(new, old), "has besides")):
        if len(lost):
            _refuse(f"has a base that {what} {len(lost)} live files, {lost.row(0).file.file_name} among them")
    both = ManifestEntries.concat([old, new])
    places = np.arange(len(both)) >= len(old)
    order = np.lexsort((both.level, both.name_hash, both.bucket, both.partition, places))
    for name in _DESCRIPTION:
        values = getattr(both, name)[order]
        if not np.array_equal(values[: len(old)], values[len(old) :]):
            _refuse(f"has a base that describes files otherwise: {name}")


def _check_counts(planned: Snapshot, latest: Snapshot | None, delta: ManifestEntries) -> None:
    signs = np.where(delta.kind == EntryKind.ADD, 1, -1)
    rows = int((delta.row_count * signs).sum())
    before = 0 if latest is None else latest.total_record_count
    if planned.delta_record_count != rows or (
        before is not None and planned.total_record_count != before + rows
    ):
        _refuse(f"counts {planned.total_record_count} rows, {planned.delta_record_count} more than before")


def _entries(lines: Sequence[ManifestFile], manifests: ManifestStore) -> ManifestEntries:
    """Return the entries of new manifests, whose lines must describe them, because readers skip manifests by
    these lines.
    """
    parts = []
    for line in lines:
        entries = manifests.read([line])
        due = describe_manifest(entries, line.file_name, line.file_size, manifests.schema.partition_type)
        if replace(line, has_unknown_columns=False) != due:
            _refuse(f"describes manifest {line.file_name} otherwise than it is")
        parts.append(entries)
    return ManifestEntries.concat(parts)


def _entry(kind: EntryKind, message: CommitMessage, file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        kind=kind,
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        file=file,
    )


def _entry_key(entry: ManifestEntry) -> tuple[bytes, int, int, EntryKind, str, DataFile]:
    """Return what identifies an entry. What the commit itself assigns to files is left out: ids and numbers
    of rows that a writer made, or whose number is that of their snapshot.
    """
    file = entry.file
    if file.file_source is not FileSource.COMPACT:
        file = replace(file, first_row_id=None, min_sequence_number=0, max_sequence_number=0)
    return entry.partition, entry.bucket, entry.total_buckets, entry.kind, file.file_name, file


def _numbers_of_files(manifests: ManifestStore, planned: Snapshot) -> int | None:
    """Return the number that new files get, or None if they get none. Rule of the format: where rows are
    tracked, a new file without numbers gets that of its snapshot.

    `planned.next_row_id` does not say whether rows are tracked: Java writes 0 for other tables, too.
    """
    schema = manifests.schema
    rules = TableRules.of(schema.options, keyed=bool(schema.primary_keys))
    return planned.id if rules.row_tracking else None


def _number(entry: ManifestEntry, number: int | None) -> ManifestEntry:
    file = entry.file
    if number is None or entry.kind is not EntryKind.ADD or file.min_sequence_number:
        return entry
    return replace(entry, file=replace(file, min_sequence_number=number, max_sequence_number=number))


def _index_key(file: IndexFile) -> tuple[bytes, int, str, str]:
    return file.partition, file.bucket, file.index_type, file.file_name


def _refuse(problem: str) -> NoReturn:
    raise ProofError("the new snapshot", f"it was not published: it {problem}")
