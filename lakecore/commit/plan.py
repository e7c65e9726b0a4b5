"""This module converts commit messages to changes, and a change to the fields of its snapshot. Pure.

Rules of the format: one commit makes up to two snapshots with the same user and identifier, first the written
data (APPEND, or OVERWRITE when it removes files or rows), then the compaction (COMPACT). Within a delta
DELETEs come before ADDs: expiry replays deltas in order, and an upgraded file must end up added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from lakecore.commit.index_changes import IndexChange
from lakecore.commit.request import CommitRequest
from lakecore.data_class import dataclass
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["Change", "ListFile", "SnapshotLists", "next_snapshot", "plan_changes", "record_delta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One snapshot makes these changes to the table."""

    kind: CommitKind
    entries: ManifestEntries
    changelog: ManifestEntries
    checked: bool
    """The change must be compared with the live files."""
    index: IndexChange
    required_files: ManifestEntries = field(default_factory=ManifestEntries.empty)
    """These files, as ADD entries, must still be live."""


@dataclass(frozen=True, slots=True)
class ListFile:
    """This is a manifest list: its name and size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLists:
    """These are the manifest lists of a new snapshot, and the row counts of its delta and changelog."""

    base: ListFile
    delta: ListFile
    changelog: ListFile | None
    index: str | None = None
    """This is the name of the index manifest."""
    next_row_id: int | None = None
    """This is the id after those given to the rows of this snapshot; None carries over that of the
    previous snapshot.
    """
    delta_rows: int
    changelog_rows: int | None


def plan_changes(messages: Sequence[CommitMessage], request: CommitRequest) -> tuple[Change, ...]:
    """Return the changes of a commit, in order; empty ones are left out unless the request allows them.

    An overwrite is kept even without new files (it removes), unless it is dynamic. Changelog files of an
    overwrite are not part of the table: a change stream ignores overwrites.
    """
    changes = []
    data = _entries(messages, _removed_files, _added_files)
    replaces = request.overwrite is not None
    index = _data_index(messages)
    removes = replaces or index.deletes_rows or any(message.deleted_files for message in messages)
    written = _additions(messages, _written_changelog)
    if len(data) or len(written) or index or _replaces_unconditionally(request) or request.allow_empty:
        changes.append(
            Change(
                kind=CommitKind.OVERWRITE if removes else CommitKind.APPEND,
                entries=data,
                changelog=ManifestEntries.empty() if replaces else written,
                checked=removes or request.check_append,
                index=index,
                required_files=_additions(messages, _required_files),
            )
        )
    compacted = _entries(messages, _compact_before, _compact_after)
    changelog = _additions(messages, _compact_changelog)
    index = _compact_index(messages)
    if len(compacted) or len(changelog) or index:
        changes.append(
            Change(
                kind=CommitKind.COMPACT,
                entries=compacted,
                changelog=changelog,
                checked=True,
                index=index,
                required_files=_additions(messages, _compact_required_files),
            )
        )
    return tuple(changes)


def record_delta(entries: ManifestEntries) -> int:
    """Return rows of added files minus rows of removed ones: physical rows, before any merge."""
    added = entries.kind == EntryKind.ADD
    return int(entries.row_count[added].sum()) - int(entries.row_count[~added].sum())


def next_snapshot(
    previous: Snapshot | None,
    kind: CommitKind,
    request: CommitRequest,
    lists: SnapshotLists,
    schema_id: int,
    now_ms: int,
) -> Snapshot:
    """Build the snapshot after `previous`, which must have a total record count if it exists.

    Statistics, the next row id (unless given) and the higher watermark are carried over. Times never
    decrease, since readers search snapshots by time. `schema_id` is that of the latest schema, not of the
    schema that the files were written with.
    """
    changelog = lists.changelog
    fresh = Snapshot(
        id=1,
        schema_id=schema_id,
        base_manifest_list=lists.base.name,
        base_manifest_list_size=lists.base.size,
        delta_manifest_list=lists.delta.name,
        delta_manifest_list_size=lists.delta.size,
        changelog_manifest_list=changelog.name if changelog else None,
        changelog_manifest_list_size=changelog.size if changelog else None,
        commit_user=request.user,
        commit_identifier=request.identifier,
        commit_kind=kind,
        time_millis=now_ms,
        total_record_count=lists.delta_rows,
        delta_record_count=lists.delta_rows,
        changelog_record_count=lists.changelog_rows,
        watermark=request.watermark,
        properties=dict(request.properties) or None,
        index_manifest=lists.index,
        next_row_id=lists.next_row_id,
    )
    return fresh if previous is None else _after(previous, fresh)


def _after(previous: Snapshot, fresh: Snapshot) -> Snapshot:
    return replace(
        fresh,
        id=previous.id + 1,
        time_millis=max(fresh.time_millis, previous.time_millis),
        total_record_count=(previous.total_record_count or 0) + (fresh.total_record_count or 0),
        watermark=_later(previous.watermark, fresh.watermark),
        statistics=previous.statistics,
        next_row_id=previous.next_row_id if fresh.next_row_id is None else fresh.next_row_id,
    )


def _later(left: int | None, right: int | None) -> int | None:
    marks = [mark for mark in (left, right) if mark is not None]
    return max(marks) if marks else None


def _replaces_unconditionally(request: CommitRequest) -> bool:
    return request.overwrite is not None and request.overwrite.partitions is not None


def _data_index(messages: Sequence[CommitMessage]) -> IndexChange:
    return IndexChange(
        tuple(file for message in messages for file in message.new_index_files),
        tuple(file for message in messages for file in message.deleted_index_files),
    )


def _compact_index(messages: Sequence[CommitMessage]) -> IndexChange:
    return IndexChange(
        tuple(file for message in messages for file in message.compact_new_index_files),
        tuple(file for message in messages for file in message.compact_deleted_index_files),
    )


def _removed_files(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.deleted_files


def _added_files(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.new_files


def _written_changelog(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.changelog_files


def _compact_before(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.compact_before


def _compact_after(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.compact_after


def _compact_changelog(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.compact_changelog


def _required_files(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.required_files


def _compact_required_files(message: CommitMessage) -> tuple[DataFile, ...]:
    return message.compact_required_files


FilesOf = Callable[[CommitMessage], tuple[DataFile, ...]]


def _entries(messages: Sequence[CommitMessage], removed: FilesOf, added: FilesOf) -> ManifestEntries:
    rows = [*_rows(messages, EntryKind.DELETE, removed), *_rows(messages, EntryKind.ADD, added)]
    return ManifestEntries.from_rows(rows)


def _additions(messages: Sequence[CommitMessage], files: FilesOf) -> ManifestEntries:
    return ManifestEntries.from_rows(list(_rows(messages, EntryKind.ADD, files)))


def _rows(messages: Sequence[CommitMessage], kind: EntryKind, files: FilesOf) -> Iterable[ManifestEntry]:
    for message in messages:
        for file in files(message):
            yield ManifestEntry(
                kind=kind,
                partition=message.partition,
                bucket=message.bucket,
                total_buckets=message.total_buckets,
                file=file,
            )
