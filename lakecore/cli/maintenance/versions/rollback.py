"""This module has the commands `rollback-to`, `rollback-to-as-latest`, `reset-consumer`, `clear-consumers`,
`expire-consumers`.
"""

from __future__ import annotations

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.chores import Tables, run_on_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.definitions.versions import (
    ClearConsumers,
    ExpireConsumers,
    ResetConsumer,
    RollbackTo,
    RollbackToAsLatest,
)

__all__ = ["clear_consumers", "expire_consumers", "reset_consumer", "rollback_to", "rollback_to_as_latest"]


def rollback_to(context: typer.Context, table: Tables, options: JobOptions[RollbackTo]) -> None:
    """Remove the snapshots and tags after a state; into the quarantine. Stop writers first."""
    run_on_tables(context, table, options, passes_over=False)


def rollback_to_as_latest(
    context: typer.Context, table: Tables, options: JobOptions[RollbackToAsLatest]
) -> None:
    """Commit an older state as the newest snapshot; nothing is removed."""
    run_on_tables(context, table, options, passes_over=False)


def reset_consumer(context: typer.Context, table: Tables, options: JobOptions[ResetConsumer]) -> None:
    """Move the saved position of a streaming read, or forget it."""
    run_on_tables(context, table, options, passes_over=False)


def clear_consumers(context: typer.Context, table: Tables, options: JobOptions[ClearConsumers]) -> None:
    """Forget the saved positions of streaming reads."""
    run_on_tables(context, table, options, passes_over=False)


def expire_consumers(
    context: typer.Context, table: Tables, options: JobOptions[ExpireConsumers], concurrency: Concurrency
) -> None:
    """Forget consumers that have not moved for long: each of them holds back expiry."""
    run_on_tables(context, table, options, concurrency=concurrency)
