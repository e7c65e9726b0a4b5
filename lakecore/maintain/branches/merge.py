"""This module appends to one branch the files that only another one has. Data files are shared, not
copied.
"""

from __future__ import annotations

from lakecore.clock import Clock
from lakecore.commit.author import Author
from lakecore.commit.committer import Committer
from lakecore.commit.preconditions import has_same_identity
from lakecore.commit.request import CommitRequest, Preconditions
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError, CorruptDataError
from lakecore.maintain.branches.plan import (
    BranchHistory,
    check_mergeable,
    check_schemas,
    entries_only_in,
    messages_of,
)
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["Merge", "merge", "plan_merge"]

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Merge:
    """These are files that only `source` has. `base` is the latest snapshot of the target when that was
    found out.
    """

    source: Snapshot
    base: Snapshot
    files: ManifestEntries

    @property
    def rows(self) -> int:
        return int(self.files.row_count.sum())


def plan_merge(source: Target, target: Target) -> Merge:
    """Return what would be merged. Raises InvalidInputError, UnsupportedError if it cannot be proven
    right.
    """
    sides = [_side(source), _side(target)]
    check_mergeable(*sides)
    left, right = sides[0].latest, sides[1].latest
    files = entries_only_in(_live(source, left), _live(target, right))
    check_schemas(files.schema_id.tolist(), _schemas(source), _schemas(target), target.paths.branch)
    return Merge(left, right, files)


def merge(source: Target, target: Target, author: Author, clock: Clock) -> tuple[Merge, int | None]:
    """Commit it: what was merged and the new snapshot, None where there was nothing.

    Commits to the target at the same time are checked again; run twice, the second finds nothing. Raises
    CommitConflictError when others were faster each time.
    """
    tracked = TableOptions.from_schema(target.schema).row_tracking
    problem: CommitConflictError | None = None
    for _ in range(_TRIES):
        planned = plan_merge(source, target)
        if not len(planned.files):
            return planned, None
        committer = Committer(target.stores)
        try:
            result = committer.commit(
                messages_of(planned.files, tracked),
                CommitRequest(
                    user=author.user,
                    identifier=author.number,
                    check_append=True,
                    preconditions=Preconditions(read_snapshot=planned.base, whole_table=True),
                ),
            )
        except CommitConflictError as err:
            problem = err
            continue
        _check_files(source, target, planned)
        return planned, result.snapshot_ids[-1] if result.snapshot_ids else None
    raise CommitConflictError(
        f"{target.name}: other writers committed to branch {target.paths.branch!r} first "
        f"{_TRIES} times ({problem}); run again"
    )


def _side(target: Target) -> BranchHistory:
    store = target.snapshots
    return BranchHistory(
        target.paths.branch, target.schema, tuple(store.load(number) for number in store.list_ids())
    )


def _schemas(target: Target) -> dict[int, TableSchema]:
    return {number: target.schemas.load(number) for number in target.schemas.list_ids()}


def _live(target: Target, snapshot: Snapshot) -> ManifestEntries:
    where = f"snapshot {snapshot.id} of branch {target.paths.branch} of {target.name}"
    return live_entries(target.manifests.read(target.manifests.data_manifests(snapshot)), where=where)


def _check_files(source: Target, target: Target, planned: Merge) -> None:
    """Raise an error if files of the source are gone. While the source still has its snapshot, nobody may
    have removed its files; otherwise each is looked up.
    """
    now = source.snapshots.find(planned.source.id)
    if now is not None and has_same_identity(now, planned.source):
        return
    directory = bucket_directory(target.paths, target.schema)
    for entry in planned.files.rows():
        path = target.paths.data_file(directory(entry.partition, entry.bucket), entry.file)
        if target.file_io.stat(path) is None:
            raise CorruptDataError(
                path,
                f"expired from branch {source.paths.branch!r} while the branch was merged; roll "
                f"branch {target.paths.branch!r} back to snapshot {planned.base.id}",
            )
