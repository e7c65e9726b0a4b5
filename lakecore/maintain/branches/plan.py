"""This module decides which files a branch has and another has not, and when one may be appended to the
other. Pure.

Nothing records where a branch began, so merging needs proof that no file was ever removed: from a snapshot
that both have alike, or else from the first one, both branches must be unbroken rows of appends. Then a file
that the target lacks was never in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import entries_only_in
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["BranchHistory", "check_mergeable", "check_schemas", "entries_only_in", "messages_of"]

_APPENDS = (CommitKind.APPEND, CommitKind.ANALYZE)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    """This is the history of one of the two branches: its latest schema and its snapshots, oldest first."""

    branch: str
    schema: TableSchema
    snapshots: tuple[Snapshot, ...]

    @property
    def latest(self) -> Snapshot:
        """Return the latest snapshot. Raises UnsupportedError for a branch without snapshots."""
        if not self.snapshots:
            raise UnsupportedError(
                f"branch {self.branch!r} has no snapshot, so it cannot be merged; write to it first"
            )
        return self.snapshots[-1]


def check_mergeable(source: BranchHistory, target: BranchHistory) -> None:
    """Raise InvalidInputError or UnsupportedError that name the branch and what prevents the merge."""
    if source.branch == target.branch:
        raise InvalidInputError(f"branch {source.branch!r} cannot be merged into itself")
    for side in (source, target):
        if side.schema.primary_keys:
            raise UnsupportedError(
                f"branch {side.branch!r} has primary keys, and only append tables can be merged; "
                "write its rows to the other branch instead"
            )
        if TableOptions.from_schema(side.schema).data_evolution:
            raise UnsupportedError(
                f"branch {side.branch!r} has data-evolution.enabled=true and cannot be merged"
            )
    tracked = [TableOptions.from_schema(side.schema).row_tracking for side in (source, target)]
    if tracked[0] != tracked[1]:
        raise UnsupportedError("row-tracking.enabled differs between the branches, so they cannot be merged")
    if source.schema.fields != target.schema.fields:
        raise UnsupportedError(
            f"branches {source.branch!r} and {target.branch!r} have different columns; alter one "
            "of them first"
        )
    start = _start(source, target)
    for side in (source, target):
        _check_appends(side, start)


def _start(source: BranchHistory, target: BranchHistory) -> int:
    """Return the id of the newest snapshot that is the same in both, or 1 if there is none."""
    theirs = {_state(snapshot) for snapshot in target.snapshots}
    common = [snapshot.id for snapshot in source.snapshots if _state(snapshot) in theirs]
    return max(common, default=1)


def _state(snapshot: Snapshot) -> tuple[object, ...]:
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    return snapshot.id, *lists, snapshot.commit_user, snapshot.time_millis


def _check_appends(side: BranchHistory, start: int) -> None:
    last = side.latest.id
    snapshots = {snapshot.id: snapshot for snapshot in side.snapshots}
    shared = start > 1 or start in snapshots
    for number in range(start, last + 1):
        snapshot = snapshots.get(number)
        if snapshot is None:
            raise UnsupportedError(
                f"snapshot {number} of branch {side.branch!r} has expired: it is not known whether "
                "a file was ever removed, so nothing is merged"
                + ("" if shared else "; the branches have no snapshot in common either")
            )
        if snapshot.commit_kind not in _APPENDS and not (number == start and start > 1):
            raise UnsupportedError(
                f"snapshot {number} of branch {side.branch!r} has kind "
                f"{snapshot.commit_kind.value}: files were removed, and it is not known which "
                "files are new to the other branch, so nothing is merged"
            )


def check_schemas(
    ids: Iterable[int], source: Mapping[int, TableSchema], target: Mapping[int, TableSchema], branch: str
) -> None:
    """Raise UnsupportedError unless files of `source` mean the same in branch `branch`."""
    for schema_id in sorted(set(ids)):
        if schema_id not in target:
            raise UnsupportedError(
                f"branch {branch!r} has no schema {schema_id}, with which files to be merged were "
                "written; alter it to the same schemas first"
            )
        if source.get(schema_id) != target[schema_id]:
            raise UnsupportedError(
                f"schema {schema_id} of branch {branch!r} differs from that of the files to be "
                "merged; write the rows to the other branch instead"
            )


def messages_of(files: ManifestEntries, user_tracked: bool) -> tuple[CommitMessage, ...]:
    """Return one message per bucket. With row tracking (`user_tracked`) rows get ids of their new branch."""
    groups: dict[tuple[bytes, int, int], list[DataFile]] = defaultdict(list)
    for entry in files.rows():
        file = replace(entry.file, first_row_id=None) if user_tracked else entry.file
        groups[entry.partition, entry.bucket, entry.total_buckets].append(file)
    return tuple(
        CommitMessage(partition=partition, bucket=bucket, total_buckets=total, new_files=tuple(group))
        for (partition, bucket, total), group in groups.items()
    )
