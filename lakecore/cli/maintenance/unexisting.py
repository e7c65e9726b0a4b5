"""This module has the commands `remove-unexisting-files`, `remove-unexisting-manifests`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.maintenance.chores import SafetyOptions, Tables, run_jobs, tables_of
from lakecore.cli.option_groups import RunName
from lakecore.jobs import unexisting as jobs

__all__ = ["remove_unexisting_files", "remove_unexisting_manifests"]

AcceptRows = Annotated[
    int | None, typer.Option(help="How many rows may be lost, as a dry run counts them; none by default.")
]
MaxShare = Annotated[
    float, typer.Option(help="A larger share of missing files is taken for a wrong answer of storage.")
]


def remove_unexisting_files(
    context: typer.Context,
    table: Tables,
    accept_rows: AcceptRows = None,
    max_share: MaxShare = 0.5,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
) -> None:
    """Commit a snapshot without the data files that are gone; their rows are lost."""
    work = [
        jobs.RemoveUnexistingFiles(
            table=name,
            accept_rows=accept_rows,
            max_share=max_share,
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)


def remove_unexisting_manifests(
    context: typer.Context,
    table: Tables,
    accept_rows: AcceptRows = None,
    max_share: MaxShare = 0.5,
    accept_revived: Annotated[
        bool, typer.Option("--accept-revived", help="Files that a lost manifest removed may come back.")
    ] = False,
    *,
    chore_options: SafetyOptions,
    run_name: RunName,
) -> None:
    """Commit a snapshot without the manifests that are gone; the rows of their files are lost."""
    work = [
        jobs.RemoveUnexistingManifests(
            table=name,
            accept_rows=accept_rows,
            max_share=max_share,
            accept_revived=accept_revived,
            commit_user=run_name.user,
            commit_identifier=run_name.identifier,
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, jobs.run, passes_over=False)
