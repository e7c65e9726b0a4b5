"""`compact-database`: all tables of a warehouse, or those that patterns want."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecore.cli.engine import Engine, executor, key_values
from lakecore.cli.lease_time import LeaseTimes
from lakecore.cli.maintenance.compact import PartitionIdleTime, TimeZone, print_reports
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.cli.output import end_on_errors, print_json
from lakecore.cli.session import session_of
from lakecore.cli.table_bars import table_bars
from lakecore.clock import SystemClock
from lakecore.compact.engine.strategy import Strategy
from lakecore.verify.mode import ProofMode

__all__ = ["compact_database"]


def compact_database(
    context: typer.Context,
    including_databases: Annotated[
        str, typer.Option(help="Only databases whose whole name matches this regular expression.")
    ] = ".*",
    including_tables: Annotated[
        str, typer.Option(help="Only tables whose database.table matches this one.")
    ] = ".*",
    excluding_tables: Annotated[
        str | None, typer.Option(help="Leave out tables whose database.table matches this one.")
    ] = None,
    options: Annotated[list[str] | None, typer.Option(help="Table option for this run: key=value.")] = None,
    strategy: Annotated[
        Strategy, typer.Option(help="universal: what needs it; full: everything into the top level.")
    ] = Strategy.UNIVERSAL,
    partition_idle_time: PartitionIdleTime = None,
    time_zone: TimeZone = "UTC",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and report; change nothing.")] = False,
    engine: Annotated[Engine, typer.Option(help="Where units run.")] = Engine.SPARK,
    master: Annotated[str | None, typer.Option(help="Spark master; default local[*].")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting: key=value.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Stop then (HH:MM or ISO date and time, UTC); later tables are skipped."),
    ] = None,
    proof: Annotated[
        ProofMode,
        typer.Option(
            help="keys: keys, sequence numbers, kinds of all rows; sampled: also every column of one row in "
            "16; full: every column of all rows."
        ),
    ] = ProofMode.SAMPLED,
    skip_unsupported: Annotated[
        bool, typer.Option("--skip-unsupported", help="Tables this release cannot compact are no error.")
    ] = False,
    *,
    lease_times: LeaseTimes,
    run_name: RunName,
    concurrency: Concurrency,
) -> None:
    """Compact the tables of all databases, many at once, on one stream of Spark jobs."""
    session = session_of(context)
    limits, user = concurrency.limits(), run_name.user_or_fresh
    settings = key_values(conf or [], "--conf")
    with executor(engine, master, settings, soon=not dry_run) as workers, table_bars(session) as bars:
        from lakecore.jobs import compact_database as jobs
        from lakecore.jobs.runner.moment import optional_span
        from lakecore.jobs.runner.until import parse_until

        clock = SystemClock()
        job = jobs.Job(
            including_databases=including_databases,
            including_tables=including_tables,
            excluding_tables=excluding_tables,
            strategy=strategy,
            options=key_values(options or [], "--options"),
            partition_idle_ms=optional_span(partition_idle_time, "--partition-idle-time"),
            zone=time_zone,
            dry_run=dry_run,
            until_ms=None if until is None else parse_until(until, clock.now_ms()),
            commit_user=user,
            commit_identifier=run_name.identifier,
            proof=proof,
            lease_ms=lease_times.lease_ms,
            wait_ms=lease_times.wait_ms,
            max_concurrent_tables=limits.tables,
            max_plan_bytes=limits.plan_bytes,
            skip_unsupported=skip_unsupported,
        )
        report = jobs.run(
            job, session.catalog, workers, clock, bars.progress, bars.done, on_tables=bars.tables
        )
    if session.json:
        print_json(session.out, report.to_json())
    else:
        if told := [one for one in report.tables if not one.nothing_to_do]:
            print_reports(session, told)
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.counts().items())
        session.out.print(f"{counts}; {report.seconds:.1f} s", markup=False)
    end_on_errors(session, report.tables)
