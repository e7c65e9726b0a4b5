"""This module removes data files that the latest snapshot names and that do not exist from it, by a
commit.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from lakecore.commit.author import Author
from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, UnavailableError, UnsupportedError
from lakecore.maintain.deletion.runs import RunState, RunStore
from lakecore.maintain.missing_places import missing_places
from lakecore.maintain.target import Target, in_threads
from lakecore.maintain.unexisting.plan import AcceptedLoss, BucketLoss, losses, total_rows
from lakecore.maintain.unexisting.vectors import VectorChange, discard, stale_vectors, without_vectors
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text
from lakecore.verify.fsck.data_files import DataFileCheck
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.references import DataReference, bucket_directory

__all__ = ["DAMAGED", "MissingFiles", "damaged_files", "find_missing_files", "remove_missing_files"]

_TRIES = 5
DAMAGED = "repair-damaged"
"""The job of runs that set damaged files aside: to have them back is no remedy."""


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """These data files are live at `snapshot` and do not exist. `paths` are where they should be."""

    snapshot: Snapshot
    live: ManifestEntries
    entries: ManifestEntries
    paths: tuple[str, ...]
    losses: tuple[BucketLoss, ...]

    @property
    def rows(self) -> int:
        """Return the number of physical rows."""
        return total_rows(self.losses)


def find_missing_files(target: Target) -> MissingFiles | None:
    """Compare the latest snapshot with its directories; return None without a snapshot.

    Cost: a listing a bucket, and a look at each file that it lacks; 8 bytes of memory a data file. Raises
    UnavailableError when storage does not answer, NotFoundError when a manifest is gone.
    """
    if TableOptions.from_schema(target.schema).data_evolution:
        raise UnsupportedError(
            f"{target.name}: data-evolution.enabled=true: other files contain columns of the "
            "same rows, so no file can be left out; roll back to an older snapshot"
        )
    latest = target.snapshots.latest()
    if latest is None:
        return None
    files = live_entries(
        target.manifests.read(target.manifests.data_manifests(latest)), where=f"snapshot {latest.id}"
    )
    lanes, paths = missing_places(target, files)
    entries = files.select(lanes)
    partition_type = target.schema.partition_type

    def text(partition: bytes) -> str:
        return partition_text(decode_row(partition, partition_type, target.paths.table_path), partition_type)

    return MissingFiles(latest, files, entries, paths, losses(entries, text))


def damaged_files(
    target: Target, snapshot: Snapshot, reported_paths: frozenset[str] = frozenset()
) -> list[tuple[str, int]]:
    """Return paths and rows of data files live at a snapshot that have another size than it records, and of
    those `reported_paths` that cannot be decoded. The cost is one listing per bucket, the names of all files,
    and a read of each file at a reported path.
    """
    entries = target.manifests.read(target.manifests.data_manifests(snapshot))
    files = live_entries(entries, where=f"snapshot {snapshot.id}")
    directory = bucket_directory(target.paths, target.schema)
    files_of: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    doubtful: dict[str, DataFile] = {}
    for entry in files.rows():
        path = target.paths.data_file(directory(entry.partition, entry.bucket), entry.file)
        files_of[path.rpartition("/")[0]][path] = entry.file.file_size, entry.file.row_count
        if path in reported_paths:
            doubtful[path] = entry.file
    damaged = []
    for folder, sizes in files_of.items():
        for status in target.file_io.list(folder):
            size, rows = sizes.get(status.path, (status.size, 0))
            if status.size != size or _undecodable(target, status.path, doubtful.get(status.path)):
                damaged.append((status.path, rows))
    return damaged


def _undecodable(target: Target, path: str, file: DataFile | None) -> bool:
    """Return whether a column of the file cannot be read. Raises UnavailableError."""
    if file is None:
        return False
    findings = Findings()
    reference = DataReference(path, 0, file, "", target.schemas, ordered=False)
    DataFileCheck(target.file_io, findings, bool(target.schema.primary_keys), deep=True).check(reference)
    return any(finding.kind is FindingKind.BYTES for finding in findings.items)


def remove_missing_files(
    target: Target, runs: RunStore, accepted: AcceptedLoss, author: Author
) -> tuple[MissingFiles | None, int | None]:
    """Commit an OVERWRITE without them; what was gone, and the snapshot. Run again, it finds nothing.

    Raises UnsupportedError, InvalidInputError when more would be lost than is accepted, or when the
    quarantine has the files; CommitConflictError when others were faster each time.
    """
    problem: CommitConflictError | None = None
    for _ in range(_TRIES):
        missing = find_missing_files(target)
        if missing is None or not len(missing.entries):
            return missing, None
        check_quarantine(target, runs, missing.paths)
        accepted.check(target.name, "data files", len(missing.entries), len(missing.live), missing.rows)
        changes = _vectors(target, missing)
        try:
            _look_again(target, missing.paths)
            committer = Committer(target.stores)
            result = committer.commit(
                _messages(missing.entries, changes), CommitRequest(user=author.user, identifier=author.number)
            )
            return missing, result.snapshot_ids[-1] if result.snapshot_ids else None
        except (CommitConflictError, UnavailableError) as err:
            discard(target, changes)
            if isinstance(err, UnavailableError):
                raise
            problem = err
    raise CommitConflictError(
        f"{target.name}: other writers committed first {_TRIES} times ({problem}); run again"
    )


def check_quarantine(target: Target, runs: RunStore, paths: tuple[str, ...]) -> None:
    """Raise UnsupportedError naming the run whose quarantine has some of the files: these are not lost."""
    sought = frozenset(paths)
    for record in runs.list(target.name):
        if record.job == DAMAGED:
            continue
        if record.keeps and record.state in (RunState.QUARANTINED, RunState.PLANNED):
            in_quarantine = sum(deletion.path in sought for deletion in runs.removal(record))
            if in_quarantine:
                raise UnsupportedError(
                    f"{target.name}: {in_quarantine} missing files are in the quarantine; restore them with "
                    f"`lakecore undo {record.id}`"
                )


def _look_again(target: Target, paths: tuple[str, ...]) -> None:
    back = [p for p, s in zip(paths, in_threads(target.file_io.stat, paths), strict=True) if s is not None]
    if back:
        raise UnavailableError(
            f"{target.name}: {back[0]} did not exist a moment ago and exists now: storage "
            "does not answer consistently; nothing was changed, run again later"
        )


def _vectors(target: Target, missing: MissingFiles) -> tuple[VectorChange, ...]:
    """Index files without the deletion vectors of what goes (and of what is not there anyway)."""
    files = target.manifests.read_index(missing.snapshot.index_manifest)
    if not files:
        return ()
    keep = np.ones(len(missing.live), np.bool_)
    keep[np.isin(missing.live.name_hash, missing.entries.name_hash)] = False
    return without_vectors(target, files, stale_vectors(files, missing.live.select(keep)))


def _messages(missing_files: ManifestEntries, changes: tuple[VectorChange, ...]) -> list[CommitMessage]:
    groups: dict[tuple[bytes, int, int], list[DataFile]] = defaultdict(list)
    for entry in missing_files.rows():
        groups[entry.partition, entry.bucket, entry.total_buckets].append(entry.file)
    out = [
        CommitMessage(partition=partition, bucket=bucket, total_buckets=total, deleted_files=tuple(files))
        for (partition, bucket, total), files in groups.items()
    ]
    return out + [
        CommitMessage(
            partition=change.bucket[0],
            bucket=change.bucket[1],
            total_buckets=-1,
            new_index_files=change.added,
            deleted_index_files=change.removed,
        )
        for change in changes
    ]
