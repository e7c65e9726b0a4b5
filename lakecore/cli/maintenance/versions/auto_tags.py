"""This module has the commands `trigger-tag-automatic-creation` and `create-batch-tags`, which tag days and
hours.
"""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.tags import CreateBatchTags, TriggerTagAutomaticCreation

__all__ = ["create_batch_tags", "trigger_tag_automatic_creation"]


def trigger_tag_automatic_creation(
    context: typer.Context,
    table: Tables,
    options: JobOptions[TriggerTagAutomaticCreation],
    concurrency: Concurrency,
) -> None:
    """Make the tags that tag.automatic-creation asks for, now; delete those that are too many or too old."""
    run_on_tables(context, table, options, concurrency=concurrency)


def create_batch_tags(
    context: typer.Context, table: Tables, options: JobOptions[CreateBatchTags], concurrency: Concurrency
) -> None:
    """Tag the last snapshot of a day or hour, exactly once; report the days without a tag, or make them."""
    run_on_tables(context, table, options, concurrency=concurrency)
