"""This module has the job that repairs a table by a plan, and the plan that `fsck` makes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakecore.clock import Clock, SystemClock
from lakecore.errors import InvalidInputError, reason
from lakecore.executor import Executor, SerialExecutor
from lakecore.jobs.definitions.repair import ApplyRepairPlan as Job
from lakecore.jobs.runner.chore import DAY_MS, Chore, ChoreKind, ChoreResult, Lake, Report, run_on_table
from lakecore.jobs.runner.counts import UNKNOWN
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.versions.by_server import refuse_files_of_server
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.deletion.sweep import Sweeper
from lakecore.maintain.holds.gate import HoldGate
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.repair.apply import ORPHAN_STEP, apply_step, make_plan, pending_changes
from lakecore.maintain.repair.context import ActionResult, RepairContext
from lakecore.maintain.repair.plan import RepairPlan, Step
from lakecore.metadata.json_record import json_object
from lakecore.store.paths import MAIN_BRANCH
from lakecore.store.snapshots import SnapshotStore
from lakecore.verify.fsck.findings import FsckReport

__all__ = ["Job", "plan_repair", "run"]

NAME = "apply-repair-plan"


def plan_repair(
    table: str, lake: Lake, report: FsckReport, clock: Clock | None = None, older_than_ms: int | None = None
) -> RepairPlan:
    """Plan the repair of what fsck found; this only reads. `older_than_ms`: younger files are no orphans;
    None means a day ago.
    """
    clock = clock or SystemClock()
    opened = lake.load_table(table)
    target = target_of(opened, lake, clock).at_branch(MAIN_BRANCH)
    gate = HoldGate(HoldStore(lake.file_io, lake.warehouse, clock), opened.name, NAME)
    sweeper = Sweeper(target, RunStore(lake.file_io, lake.warehouse, clock), SerialExecutor(), gate)
    older_than = clock.now_ms() - DAY_MS if older_than_ms is None else older_than_ms
    branches = (MAIN_BRANCH, *target.branches.list())
    return make_plan(RepairContext(target, sweeper, user=""), report.findings, branches, older_than)


def run(job: Job, lake: Lake, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Apply the steps in order. Each is checked against the present table. A repeated run continues where the
    first one stopped.

    Raises InvalidInputError for a stale plan, and, before anything is touched, when rows would be lost that
    the job does not allow to lose.
    """
    plan = _plan(job)
    if plan.table != job.table:
        raise InvalidInputError(f"the plan is for table {plan.table}, not for {job.table}")
    steps = plan.chosen(_numbers(job))
    losing = [step for step in steps if step.loses_rows]
    if losing and not (job.allow_loss or job.dry_run):
        losses = "; ".join(f"step {step.number} loses {_rows(step)}: {step.loses}" for step in losing)
        raise InvalidInputError(f"{job.table}: {losses}; allow that with --allow-loss, or choose other steps")
    # files that an interrupted run left are removed later: here the table may be too broken to tell
    kind = ChoreKind(NAME, quarantine=True, resume=False, by_age=True)
    return run_on_table(kind, job, lake, partial(_repair, job, steps), executor, clock)


def _repair(job: Job, steps: tuple[Step, ...], chore: Chore) -> ChoreResult:
    main = chore.main()
    if not job.dry_run:
        refuse_files_of_server(chore, NAME)
    user = f"lakecore-{NAME}-{main.clock.fresh_id()}"
    sweeper = replace(chore.sweeper, target=main)
    if not job.dry_run:
        sweeper.resume(roots_only=True)
    context = RepairContext(main, sweeper, user, chore.quarantine)
    return ChoreResult(_apply(job, chore, context, steps), after=UNKNOWN.of)


def _plan(job: Job) -> RepairPlan:
    try:
        raw = json_object(job.plan) if isinstance(job.plan, str) else job.plan
    except ValueError as err:
        raise InvalidInputError(f"{job.table}: this is not a repair plan: {reason(err)}") from err
    return RepairPlan.from_json(raw)


def _numbers(job: Job) -> list[int]:
    try:
        return [int(number) for number in job.steps]
    except ValueError as err:
        raise InvalidInputError(f"{job.table}: steps {job.steps!r}: give step numbers of the plan") from err


def _apply(job: Job, chore: Chore, context: RepairContext, steps: tuple[Step, ...]) -> Report:
    notes: list[str] = []
    worked: list[ActionResult] = []
    for step in steps:
        if job.dry_run:
            pending = len(pending_changes(context, step))
            notes.append(
                f"step {step.number} ({step.action}): {pending} of {len(step.changes)} changes would be made"
            )
            continue
        if step.action == ORPHAN_STEP and chore.sweeper.gate.holds():
            notes.append(f"step {step.number} ({step.action}): it was skipped, because {chore.hold_text()}")
            continue
        result = apply_step(context, step)
        notes.append(f"step {step.number} ({step.action}): {_outcome(result)}")
        worked += [result] if result is not None else []
    if not job.dry_run:
        _catch_up(context, steps)
    runs = [result.run for result in worked if result.run is not None]
    snapshots = [result.snapshot for result in worked if result.snapshot is not None]
    return replace(
        chore.report,
        run=runs[-1] if runs else None,
        names=tuple(f"{step.number} {step.action}" for step in steps),
        snapshot=snapshots[-1] if snapshots else None,
        files=sum(result.files for result in worked if result.run is not None),
        notes=tuple(notes),
        nothing_to_do=not worked and not job.dry_run,
    )


def _catch_up(context: RepairContext, steps: tuple[Step, ...]) -> None:
    """Complete the hints: an earlier try may have been killed between a commit and LATEST, and other chores
    look at one branch only.
    """
    main = context.main
    for branch in sorted({step.branch for step in steps}):
        SnapshotStore(main.file_io, main.paths.with_branch(branch), main.clock).catch_up_latest()


def _outcome(result: ActionResult | None) -> str:
    if result is None:
        return "it was already done"
    parts = [f"{result.files} files"]
    parts += [f"snapshot {result.snapshot}"] if result.snapshot is not None else []
    parts += [f"undo it with: lakecore undo {result.run}"] if result.run is not None else []
    return ", ".join(parts)


def _rows(step: Step) -> str:
    return "an unknown number of rows" if step.rows_lost is None else f"{step.rows_lost} rows"
