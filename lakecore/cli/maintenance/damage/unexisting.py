"""This module has the commands `remove-unexisting-files`, `remove-unexisting-manifests`."""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.jobs.definitions.repair import RemoveUnexistingFiles, RemoveUnexistingManifests

__all__ = ["remove_unexisting_files", "remove_unexisting_manifests"]


def remove_unexisting_files(
    context: typer.Context, table: Tables, options: JobOptions[RemoveUnexistingFiles]
) -> None:
    """Commit a snapshot without the data files that are gone; their rows are lost."""
    run_on_tables(context, table, options, passes_over=False)


def remove_unexisting_manifests(
    context: typer.Context, table: Tables, options: JobOptions[RemoveUnexistingManifests]
) -> None:
    """Commit a snapshot without the manifests that are gone; the rows of their files are lost."""
    run_on_tables(context, table, options, passes_over=False)
