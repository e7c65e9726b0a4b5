"""This module has the commands `why`, `apply-repair-plan`, `repair`, `repair-hints`,
`repair-earliest-snapshot`,
`compact-manifest`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import OneTable, Tables, run_jobs, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.session import session_of
from lakecore.errors import InvalidInputError, reason
from lakecore.jobs.definitions.repair import (
    ApplyRepairPlan,
    CompactManifest,
    RepairCatalog,
    RepairEarliestSnapshot,
    RepairHints,
    Why,
)

__all__ = [
    "apply_repair_plan",
    "compact_manifest",
    "repair",
    "repair_earliest_snapshot",
    "repair_hints",
    "why",
]


def why(
    context: typer.Context,
    table: OneTable,
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[FILE|SNAPSHOT]", help="Give the name of a file or the id of a snapshot."),
    ] = None,
) -> None:
    """Say what keeps a file or snapshot alive; without one, what holds back the table's expiry."""
    run_jobs(context, [Why(table=table, subject=subject)])


def repair_hints(
    context: typer.Context, table: Tables, options: JobOptions[RepairHints], concurrency: Concurrency
) -> None:
    """Let the hints LATEST and EARLIEST say what is there."""
    run_on_tables(context, table, options, concurrency=concurrency)


def repair_earliest_snapshot(
    context: typer.Context, table: Tables, options: JobOptions[RepairEarliestSnapshot]
) -> None:
    """Let the hint EARLIEST say where the unbroken row of snapshots begins."""
    run_on_tables(context, table, options, passes_over=False)


def apply_repair_plan(
    context: typer.Context,
    table: OneTable,
    plan: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Read the plan that fsck --plan wrote.")
    ],
    step: Annotated[list[int] | None, typer.Option(help="Apply only this step; may be repeated.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Apply all steps, in order.")] = False,
    *,
    options: JobOptions[ApplyRepairPlan],
) -> None:
    """Apply a repair plan step by step; each is checked against the table as it is now first."""
    if context.info_name == "repair":
        session_of(context).note("warning: repair --plan is called apply-repair-plan now; use that name")
    if every == bool(step):
        raise InvalidInputError("give --step N, or --all")
    run_jobs(context, [options.job(table=table, plan=_plan_of(plan), steps=tuple(step or ()))])


def repair(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="[DB[.TABLE]]", help="Repair only this database, or this table.")
    ] = "",
) -> None:
    """Add tables whose files exist to the catalog's list of names, with their databases, as Paimon does.

    With --plan it is apply-repair-plan, for one release more.
    """
    run_jobs(context, [RepairCatalog(target=target)])


def _plan_of(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as err:
        raise InvalidInputError(f"{path}: this is not a repair plan: {reason(err)}") from err
    if not isinstance(raw, dict):
        raise InvalidInputError(f"{path}: not a repair plan")
    return raw


def compact_manifest(
    context: typer.Context, table: Tables, options: JobOptions[CompactManifest], concurrency: Concurrency
) -> None:
    """Rewrite many small manifests as few; changes no row."""
    run_on_tables(context, table, options, concurrency=concurrency)
