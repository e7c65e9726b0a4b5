"""This module has the commands `create-tag`, `replace-tag`, `rename-tag`, `delete-tag`, `expire-tags`."""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.tags import CreateTag, DeleteTag, ExpireTags, RenameTag, ReplaceTag

__all__ = ["create_tag", "delete_tag", "expire_tags", "rename_tag", "replace_tag"]


def create_tag(context: typer.Context, table: Tables, options: JobOptions[CreateTag]) -> None:
    """Keep a snapshot under a name, beyond its expiry."""
    run_on_tables(context, table, options, passes_over=False)


def replace_tag(context: typer.Context, table: Tables, options: JobOptions[ReplaceTag]) -> None:
    """Let a tag stand for another snapshot, without a gap; free what only the old one needed."""
    run_on_tables(context, table, options, passes_over=False)


def rename_tag(context: typer.Context, table: Tables, options: JobOptions[RenameTag]) -> None:
    """Give a tag another name."""
    run_on_tables(context, table, options, passes_over=False)


def delete_tag(context: typer.Context, table: Tables, options: JobOptions[DeleteTag]) -> None:
    """Delete tags and the files that only they need; into the quarantine."""
    run_on_tables(context, table, options, passes_over=False)


def expire_tags(
    context: typer.Context, table: Tables, options: JobOptions[ExpireTags], concurrency: Concurrency
) -> None:
    """Delete tags whose time has passed, and those made before --older-than."""
    run_on_tables(context, table, options, concurrency=concurrency)
