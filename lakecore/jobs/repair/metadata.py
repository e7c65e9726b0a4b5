"""This module has jobs that repair metadata: wrong hints, a gap in the snapshots, many small manifests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock
from lakecore.executor import Executor
from lakecore.jobs.definitions.repair import CompactManifest, RepairEarliestSnapshot, RepairHints
from lakecore.jobs.runner.chore import Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import Change
from lakecore.maintain.forecast.plan import Work
from lakecore.maintain.hints import repair_earliest, repair_hints, wrong_hints
from lakecore.maintain.manifests import compact_manifests
from lakecore.metadata.snapshot import CommitKind
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["CompactManifest", "RepairEarliestSnapshot", "RepairHints", "run"]


_NAMES = {
    RepairHints: "repair-hints",
    RepairEarliestSnapshot: "repair-earliest-snapshot",
    CompactManifest: "compact-manifest",
}


def run(
    job: RepairHints | RepairEarliestSnapshot | CompactManifest,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Repair metadata. It raises the errors of `expire_snapshots.run`."""
    return run_on_table(ChoreKind(_NAMES[type(job)]), job, lake, partial(_run, job), executor, clock)


def _run(job: RepairHints | RepairEarliestSnapshot | CompactManifest, chore: Chore) -> ChoreResult | Report:
    match job:
        case RepairHints():
            return _hints(job, chore)
        case RepairEarliestSnapshot():
            return _earliest(job, chore)
        case CompactManifest():
            return _manifests(job, chore)


def _earliest(job: RepairEarliestSnapshot, chore: Chore) -> Report:
    target = chore.target
    before = repair_earliest(target.file_io, target.paths, job.snapshot, dry_run=job.dry_run)
    note = f"the earliest snapshot was {before}"
    return replace(chore.report, snapshot=job.snapshot, notes=(note,), nothing_to_do=before == job.snapshot)


def _hints(job: RepairHints, chore: Chore) -> Report:
    target = chore.main()
    names: list[str] = []
    for branch in (MAIN_BRANCH, *target.branches.list()):
        paths = target.paths.with_branch(branch)
        act = wrong_hints if job.dry_run else repair_hints
        names += [f"{path} -> {right}" for path, right in act(target.file_io, paths).items()]
    return replace(chore.report, names=tuple(names), nothing_to_do=not names)


def _manifests(job: CompactManifest, chore: Chore) -> ChoreResult | Report:
    author = chore.author(job)
    if (landed := chore.committed_earlier(author, CommitKind.COMPACT)) is not None:
        return landed
    result = compact_manifests(chore.target, author, dry_run=job.dry_run)
    if result is None:
        return replace(chore.report, nothing_to_do=True)
    entries = sum(one.num_added_files + one.num_deleted_files for one in result.changed)
    work = Work(files=len(result.changed), entries=entries)
    note = f"{result.before} manifests {'would become about' if job.dry_run else 'became'} {result.after}"
    report = replace(chore.report, snapshot=result.snapshot_id, notes=(note,))
    return ChoreResult(report, after=Change(snapshots=1).of, work=work)
