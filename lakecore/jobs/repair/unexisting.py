"""Jobs for missing files: a new snapshot no longer names the files that a table names and that do not exist.

Both jobs can lose rows: they say which, and run only when that many rows are accepted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.commit.author import Author
from lakecore.executor import Executor
from lakecore.jobs.definitions.repair import RemoveUnexistingFiles, RemoveUnexistingManifests
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import Change, counts_of_entries
from lakecore.maintain.forecast.plan import Work
from lakecore.maintain.unexisting.files import MissingFiles, find_missing_files, remove_missing_files
from lakecore.maintain.unexisting.manifests import (
    MissingManifests,
    find_missing_manifests,
    remove_missing_manifests,
)
from lakecore.maintain.unexisting.plan import AcceptedLoss
from lakecore.metadata.manifest.shape import Shape
from lakecore.metadata.snapshot import CommitKind

__all__ = ["RemoveUnexistingFiles", "RemoveUnexistingManifests", "run"]

_MOST_PATHS = 20


_NAMES = {
    RemoveUnexistingFiles: "remove-unexisting-files",
    RemoveUnexistingManifests: "remove-unexisting-manifests",
}


def run(
    job: RemoveUnexistingFiles | RemoveUnexistingManifests,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Commit a snapshot without the missing files. Raises InvalidInputError, UnsupportedError before anything
    is touched; CommitConflictError.
    """
    return run_on_table(ChoreKind(_NAMES[type(job)]), job, lake, partial(_run, job), executor, clock)


def _run(job: RemoveUnexistingFiles | RemoveUnexistingManifests, chore: Chore) -> ChoreResult | Report:
    accepted = AcceptedLoss(rows=job.accept_rows, max_share=job.max_share)
    author = chore.author(job)
    if (landed := chore.committed_earlier(author, CommitKind.OVERWRITE)) is not None:
        return landed
    if isinstance(job, RemoveUnexistingFiles):
        return _files(job, chore, accepted, author)
    return _manifests(job, chore, accepted, author)


def _files(
    job: RemoveUnexistingFiles, chore: Chore, accepted: AcceptedLoss, author: Author
) -> ChoreResult | Report:
    missing: MissingFiles | None
    snapshot: int | None = None
    if job.dry_run:
        missing = find_missing_files(chore.target)
    else:
        missing, snapshot = remove_missing_files(chore.target, chore.sweeper.runs, accepted, author)
    if missing is None or not len(missing.entries):
        return replace(chore.report, nothing_to_do=True)
    keyed = bool(chore.target.schema.primary_keys)
    change = Change.removing(Shape.of(missing.entries, keyed=keyed), snapshots=1)
    change = replace(change, sorted_runs=None) if keyed else change  # a run may lose a part only
    rest = len(missing.losses) - _MOST_PATHS
    notes = [f"these rows are lost: {loss}" for loss in missing.losses[:_MOST_PATHS]]
    notes += [f"{rest} more buckets lose rows"] if rest > 0 else []
    notes.append(_total(job, missing.rows))
    return ChoreResult(
        replace(chore.report, snapshot=snapshot, names=missing.paths, notes=tuple(notes)),
        before=counts_of_entries(chore.target, missing.live),
        after=change.of,
        work=Work(files=len(missing.entries), entries=len(missing.live)),
    )


def _manifests(
    job: RemoveUnexistingManifests, chore: Chore, accepted: AcceptedLoss, author: Author
) -> ChoreResult | Report:
    missing: MissingManifests | None
    snapshot: int | None = None
    target = chore.target
    if job.dry_run:
        missing = find_missing_manifests(target)
    else:
        revived = job.accept_revived
        missing, snapshot = remove_missing_manifests(
            target, chore.sweeper.runs, accepted, author, accept_revived=revived
        )
    if missing is None or not missing.missing:
        return replace(chore.report, nothing_to_do=True)
    counts = counts_of_entries(target, missing.live)
    notes = [_total(job, missing.rows)]
    if missing.revived:
        notes.append(
            f"{missing.revived} removals of files are lost: the rows of these files appear again "
            "if the files still exist"
        )
    names = tuple(target.paths.manifest(file.file_name) for file in missing.missing)
    return ChoreResult(
        replace(chore.report, snapshot=snapshot, names=names, notes=tuple(notes)),
        after=lambda before: replace(counts, snapshots=Change(snapshots=1).of(before).snapshots),
        work=Work(files=len(missing.missing), entries=len(missing.live)),
    )


def _total(job: RemoveUnexistingFiles | RemoveUnexistingManifests, rows: int | None) -> str:
    if not job.dry_run:
        return f"{rows} rows are lost"
    if rows is None:
        return "an unknown number of rows would be lost"
    return f"{rows} rows would be lost; to do it, give --accept-rows {rows}"
