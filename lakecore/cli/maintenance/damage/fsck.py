"""This module has `fsck`, which checks tables and prints what is wrong. Exit code 2 means findings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, tables_of
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, LakeError
from lakecore.jobs.definitions.repair import Fsck

if TYPE_CHECKING:
    from lakecore.jobs.fsck import CheckResult
    from lakecore.maintain.repair.plan import RepairPlan
    from lakecore.verify.fsck.findings import FsckReport

__all__ = ["fsck"]

_FINDINGS = 2


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result for one table: the findings, or the error that prevented the check."""

    table: str
    checked: CheckResult | None = None
    error: str | None = None

    @property
    def report(self) -> FsckReport | None:
        return None if self.checked is None else self.checked.report

    def to_json(self) -> dict[str, Any]:
        if self.checked is None:
            return {"table": self.table, "seconds": 0.0, "error": self.error, "findings": []}
        return {"table": self.table, "error": None, **self.checked.to_json()}


def fsck(
    context: typer.Context,
    table: Tables,
    options: JobOptions[Fsck],
    plan: Annotated[
        Path | None, typer.Option(help="Write a repair plan to this file; `apply-repair-plan` applies it.")
    ] = None,
) -> None:
    """Check hints, snapshots, manifests, data files, key order, levels, totals, orphans. It changes no table.

    A damaged table is put on hold: nothing is removed from it until a check is clean or it is released.
    """
    session = session_of(context)
    checked = []
    names = tables_of(context, table)
    if plan is not None and len(names) != 1:
        raise InvalidInputError(f"--plan is for one table, not for {len(names)}")
    for name in names:
        with session.err.status(f"checking {name}") if session.err.is_terminal else nullcontext():
            checked.append(_check(session, options.job(table=name)))
    if plan is not None:
        _write_plan(session, plan, checked[0], options.values.get("older_than_ms"))
    if session.json:
        print_json(session.out, [one.to_json() for one in checked])
    else:
        _print(session, checked)
    end_on_errors(session, checked)
    if any(one.report is not None and one.report.findings for one in checked):
        raise typer.Exit(_FINDINGS)


def _check(session: Session, job: Fsck) -> _Answer:
    from lakecore.jobs.fsck import run  # help needs no tables

    try:
        return _Answer(job.table, run(job, session.catalog))
    except LakeError as err:
        return _Answer(job.table, error=str(err))


def _write_plan(session: Session, path: Path, checked: _Answer, older_than_ms: int | None) -> None:
    """Write the repair plan of a table, or nothing for a table that cannot even be opened."""
    from lakecore.jobs.repair.repair_plan import plan_repair  # help needs no tables

    if checked.report is None:
        return
    result = plan_repair(checked.table, session.catalog, checked.report, older_than_ms=older_than_ms)
    path.write_text(json.dumps(result.to_json(), indent=2), encoding="utf-8")
    if not session.json:
        _print_plan(session, path, result)


def _print_plan(session: Session, path: Path, plan: RepairPlan) -> None:
    columns = ["step", "action", "branch", "changes", "rows lost", "undo", "why"]
    rows = [
        [s.number, s.action, s.branch, len(s.changes), s.rows_lost, "yes" if s.undo else "no", s.why]
        for s in plan.steps
    ]
    session.out.print(table_of(columns, rows, whole=2))
    for line in plan.later:
        session.out.print(f"plan again after these steps, to see: {line}", markup=False)
    for one in plan.advice:
        session.out.print(f"no step for {one.path}: {one.problem}: {one.advice}", markup=False)
    session.out.print(
        f"written to {path}; apply it with: lakecore apply-repair-plan {plan.table} --plan {path} --all"
    )


def _print(session: Session, checked: Sequence[_Answer]) -> None:
    columns = ["table", "result", "damage", "other", "snapshots", "files", "rows read", "seconds"]
    session.out.print(table_of(columns, [_row(one) for one in checked]))
    for one in checked:
        if one.error is not None:
            session.out.print(f"{one.table}: error: {' '.join(one.error.split())}", markup=False)
        for finding in one.report.findings if one.report is not None else ():
            session.out.print(f"{one.table}: {finding}", markup=False)
        for note in one.checked.holds if one.checked is not None else ():
            session.out.print(f"{one.table}: {note}", markup=False)
        if one.report is not None and one.report.young_orphans:
            session.out.print(f"{one.table}: {_young(one.report)}", markup=False)


def _young(report: FsckReport) -> str:
    count = report.young_orphans
    files = "1 file that nobody refers to is" if count == 1 else f"{count} files that nobody refers to are"
    return f"{files} too young to be called lost ({size_text(report.young_bytes)}; see --older-than)"


def _row(one: _Answer) -> list[Any]:
    report = one.report
    seconds = f"{0 if one.checked is None else one.checked.seconds:.1f}"
    if report is None:
        return [one.table, "failed", None, None, None, None, None, seconds]
    damage = len(report.damage)
    result = "damaged" if damage else "findings" if report.findings else "ok"
    counts = [report.snapshots, report.data_files, report.rows_read]
    return [one.table, result, damage, len(report.findings) - damage, *counts, seconds]
