"""This module has the commands `why`, `repair`, `repair-hints`, `repair-earliest-snapshot`,
`compact-manifest`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.maintenance.chores import (
    OneTable,
    Options,
    RemovalOptions,
    SafetyOptions,
    Tables,
    run_jobs,
    tables_of,
)
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.errors import InvalidInputError, reason
from lakecore.jobs import repair as jobs
from lakecore.jobs import repair_plan as plan_jobs
from lakecore.jobs import why as why_jobs

__all__ = ["compact_manifest", "repair", "repair_earliest_snapshot", "repair_hints", "why"]


def why(
    context: typer.Context,
    table: OneTable,
    subject: Annotated[
        str | None, typer.Argument(metavar="[FILE|SNAPSHOT]", help="A file's name or a snapshot's id.")
    ] = None,
) -> None:
    """Say what keeps a file or snapshot alive; without one, what holds back the table's expiry."""
    run_jobs(context, [why_jobs.Job(table=table, subject=subject)], why_jobs.run)


def repair_hints(
    context: typer.Context, table: Tables, *, chore_options: SafetyOptions, concurrency: Concurrency
) -> None:
    """Let the hints LATEST and EARLIEST say what is there."""
    work = [
        jobs.RepairHints(table=name, dry_run=chore_options.dry_run, safety=chore_options.safety)
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, concurrency=concurrency)


def repair_earliest_snapshot(
    context: typer.Context,
    table: Tables,
    snapshot_id: Annotated[int, typer.Option(help="The first snapshot after a gap in the ids.")],
    *,
    chore_options: SafetyOptions,
) -> None:
    """Let the hint EARLIEST say where the unbroken row of snapshots begins."""
    work = [
        jobs.RepairEarliestSnapshot(
            table=name, snapshot=snapshot_id, dry_run=chore_options.dry_run, safety=chore_options.safety
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def repair(
    context: typer.Context,
    table: OneTable,
    plan: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="What fsck --plan wrote.")],
    step: Annotated[list[int] | None, typer.Option(help="Only this step; may be repeated.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All steps, in order.")] = False,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Also steps that lose rows, as the plan says.")
    ] = False,
    *,
    chore_options: RemovalOptions,
) -> None:
    """Apply a repair plan step by step; each is checked against the table as it is now first."""
    if every == bool(step):
        raise InvalidInputError("give --step N, or --all")
    job = plan_jobs.Job(
        table=table,
        plan=_plan_of(plan),
        steps=tuple(step or ()),
        allow_loss=allow_loss,
        dry_run=chore_options.dry_run,
        safety=chore_options.safety,
    )
    run_jobs(context, [job], plan_jobs.run)


def _plan_of(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as err:
        raise InvalidInputError(f"{path}: not a repair plan: {reason(err)}") from err
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path}: not a repair plan")
    return found


def compact_manifest(
    context: typer.Context,
    table: Tables,
    option: Options = None,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
    concurrency: Concurrency,
) -> None:
    """Rewrite many small manifests as few; changes no row."""
    work = [
        jobs.CompactManifest(
            table=name,
            options=key_values(option or [], "--option"),
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, concurrency=concurrency)
