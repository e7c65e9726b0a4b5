"""This module has the commands `trigger-tag-automatic-creation` and `create-batch-tags`, which tag days and
hours.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import key_values
from lakecore.cli.maintenance.chores import Options, RemovalOptions, Tables, run_jobs, span, tables_of
from lakecore.cli.option_groups import Concurrency
from lakecore.jobs.versions import auto_tags, batch_tags

__all__ = ["create_batch_tags", "trigger_tag_automatic_creation"]


def trigger_tag_automatic_creation(
    context: typer.Context,
    table: Tables,
    time_zone: Annotated[
        str,
        typer.Option(
            "--time-zone", help="Time zone of commits, unless sink.process-time-zone gives it, and of tags."
        ),
    ] = "UTC",
    option: Options = None,
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
) -> None:
    """Make the tags that tag.automatic-creation asks for, now; delete those that are too many or too old."""
    work = [
        auto_tags.Job(
            table=name,
            zone=time_zone,
            options=key_values(option or [], "--option"),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for name in tables_of(context, table)
    ]
    run_jobs(context, work, auto_tags.run, concurrency=concurrency)


def create_batch_tags(
    context: typer.Context,
    table: Tables,
    date: Annotated[
        str, typer.Option(help="A time in the period to tag: 2026-11-20. Default: the last that is over.")
    ] = "",
    as_of: Annotated[str, typer.Option(help="Without --date: the last period that was over then.")] = "",
    from_: Annotated[
        str, typer.Option("--from", help="First period that should have a tag; default that of the oldest.")
    ] = "",
    to: Annotated[str, typer.Option(help="Last period that should have a tag; default --date.")] = "",
    period: Annotated[
        str, typer.Option(help="daily, hourly, two-hours, '15 min'; default the table's option.")
    ] = "",
    formatter: Annotated[
        str, typer.Option(help="with_dashes, without_dashes, without_dashes_and_spaces; default its option.")
    ] = "",
    name: Annotated[str, typer.Option(help="Names of the tags, with {period} once.")] = "{period}",
    delay: Annotated[
        str, typer.Option(help="How long after its end a period still takes snapshots.")
    ] = "0 s",
    by: Annotated[
        batch_tags.PeriodClock, typer.Option(help="Which time counts.")
    ] = batch_tags.PeriodClock.COMMIT_TIME,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Let tags of another snapshot stand for the right one; they are never missing."
        ),
    ] = False,
    backfill: Annotated[
        bool, typer.Option("--backfill", help="Make the missing tags of the whole range.")
    ] = False,
    num_retained_max: Annotated[
        int | None, typer.Option(help="Keep so many tags of these names; default the table's option.")
    ] = None,
    time_retained: Annotated[
        str | None, typer.Option(help="How long each stays: '7 d'. Default: the table's option.")
    ] = None,
    time_zone: Annotated[
        str,
        typer.Option(
            "--time-zone", help="Time zone of days and hours; default the table's option, else UTC."
        ),
    ] = "",
    option: Options = None,
    *,
    chore_options: RemovalOptions,
    concurrency: Concurrency,
) -> None:
    """Tag the last snapshot of a day or hour, exactly once; report the days without a tag, or make them."""
    work = [
        batch_tags.Job(
            table=one,
            date=date,
            as_of=as_of,
            start=from_,
            end=to,
            period=period,
            formatter=formatter,
            name=name,
            delay_ms=span(delay, "--delay") or 0,
            by=by.value,
            replace=replace,
            backfill=backfill,
            num_retained_max=num_retained_max,
            time_retained_ms=span(time_retained, "--time-retained"),
            zone=time_zone,
            options=key_values(option or [], "--option"),
            dry_run=chore_options.dry_run,
            safety=chore_options.safety,
        )
        for one in tables_of(context, table)
    ]
    run_jobs(context, work, batch_tags.run, concurrency=concurrency)
