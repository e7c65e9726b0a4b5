"""This module has the command `compact`: compaction jobs for one table or many, and their reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.engine import Engine, executor, key_values
from lakecore.cli.lease_time import LeaseTimes
from lakecore.cli.option_groups import Concurrency, RunName
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_bars import table_bars
from lakecore.clock import SystemClock
from lakecore.compact.engine.strategy import Strategy
from lakecore.row.order_strategy import OrderStrategy
from lakecore.types.counted import counted
from lakecore.verify.mode import ProofMode

if TYPE_CHECKING:  # the commands import them while Spark starts
    from lakecore.executor import Executor
    from lakecore.jobs import compact as jobs
    from lakecore.table import Table

__all__ = [
    "PartitionIdleTime",
    "TimeZone",
    "compact",
    "compact_one",
    "print_reports",
    "report_problem",
]

PartitionIdleTime = Annotated[
    str | None, typer.Option(help="Only partitions that got no new file for so long: '1 d'.")
]
TimeZone = Annotated[
    str, typer.Option(help="Time zone of the machine that wrote the files, for --partition-idle-time.")
]


def compact(
    context: typer.Context,
    table: Annotated[list[str], typer.Argument(metavar="DB.TABLE...", help="Names and globs ('db.*').")],
    strategy: Annotated[
        Strategy, typer.Option(help="universal: what needs it; full: everything into the top level.")
    ] = Strategy.UNIVERSAL,
    order_strategy: Annotated[
        OrderStrategy,
        typer.Option(help="Put the rows of an append table without buckets in order; rewrites all files."),
    ] = OrderStrategy.NONE,
    order_by: Annotated[str | None, typer.Option(help="Columns to order by: 'a,b'.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Order partitions again that are in this order already.")
    ] = False,
    where: Annotated[str | None, typer.Option(help="Only these partitions: 'dt=a,hh=b;dt=c'.")] = None,
    buckets: Annotated[str | None, typer.Option(help="Only these buckets: '0-99,200'.")] = None,
    partition_idle_time: PartitionIdleTime = None,
    time_zone: TimeZone = "UTC",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and report; change nothing.")] = False,
    engine: Annotated[Engine, typer.Option(help="Where units run.")] = Engine.SPARK,
    master: Annotated[str | None, typer.Option(help="Spark master; default local[*].")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting: key=value.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Stop then (HH:MM or ISO date and time, UTC), commit what is proven, report the rest."
        ),
    ] = None,
    proof: Annotated[
        ProofMode,
        typer.Option(
            help="keys: keys, sequence numbers, kinds of all rows; sampled: also every column of one row in "
            "16; full: every column of all rows."
        ),
    ] = ProofMode.SAMPLED,
    proof_seed: Annotated[
        str, typer.Option(help="Chooses the rows of a sampled proof; a report and a refusal name theirs.")
    ] = "",
    option: Annotated[list[str] | None, typer.Option(help="Table option for this run: key=value.")] = None,
    *,
    lease_times: LeaseTimes,
    run_name: RunName,
    concurrency: Concurrency,
) -> None:
    """Compact tables, several at once; one that fails does not stop the rest."""
    session = session_of(context)
    limits, user = concurrency.limits(), run_name.user_or_fresh
    settings = key_values(conf or [], "--conf")
    with executor(engine, master, settings, soon=not dry_run) as workers, table_bars(session) as bars:
        from lakecore.cli.table_names import expand_tables
        from lakecore.jobs import compact as jobs
        from lakecore.jobs.runner.moment import optional_span
        from lakecore.jobs.runner.until import parse_until

        clock = SystemClock()
        until_ms = None if until is None else parse_until(until, clock.now_ms())
        work = [
            jobs.Job(
                table=name,
                strategy=strategy,
                order_strategy=order_strategy,
                order_by=tuple(filter(None, map(str.strip, (order_by or "").split(",")))),
                force=force,
                where=where,
                buckets=buckets,
                partition_idle_ms=optional_span(partition_idle_time, "--partition-idle-time"),
                zone=time_zone,
                options=key_values(option or [], "--option"),
                dry_run=dry_run,
                until_ms=until_ms,
                commit_user=user,
                commit_identifier=run_name.identifier,
                proof=proof,
                proof_seed=proof_seed,
                lease_ms=lease_times.lease_ms,
                wait_ms=lease_times.wait_ms,
            )
            for name in expand_tables(session.catalog, table)
        ]
        bars.tables(len(work))
        reports = jobs.run_many(work, session.catalog, workers, clock, bars.progress, bars.done, limits)
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        print_reports(session, reports)
    end_on_errors(session, reports)


def compact_one(session: Session, table: Table, workers: Executor) -> jobs.Report:
    """Run the compaction that follows a write of `table`."""
    from lakecore.compact.engine.full_due import of_a_writer
    from lakecore.jobs import compact as jobs

    clock = SystemClock()
    job = jobs.Job(
        table=table.name,
        strategy=of_a_writer(table.schema, table.options),
        options=dict(table._overrides),
        commit_user=f"lakecore-cli-{clock.fresh_id()}",
        commit_identifier=1,
    )
    return jobs.run(job, session.catalog, workers, clock)


def report_problem(report: jobs.Report) -> str | None:
    """Return why the table was not compacted as requested; None when it was."""
    return report.error


def print_reports(session: Session, reports: Sequence[jobs.Report]) -> None:
    columns = ["table", "result", "files", "runs", "size", "rows", "seconds", "snapshot"]
    session.out.print(table_of(columns, [_report_row(report) for report in reports], whole=2))
    for report in reports:
        for line in _remarks(report):
            session.out.print(f"{report.table}: {line}", markup=False)


def _report_row(report: jobs.Report) -> list[Any]:
    before, after = report.before, report.after
    if report.skipped or (report.error is not None and not report.snapshots):
        result = "skipped" if report.skipped else "failed"
        return [report.table, result, *[None] * 4, f"{report.seconds:.1f}", None]
    return [
        report.table,
        _result(report),
        _change(before.files, after.files),
        _change(before.sorted_runs, after.sorted_runs),
        _change(size_text(before.bytes), size_text(after.bytes)),
        None if report.nothing_to_do or report.dry_run else f"{report.rows_in} -> {report.rows_out}",
        f"{report.seconds:.1f}",
        report.snapshot,
    ]


def _change(before: object, after: object) -> str:
    return f"{before}" if before == after else f"{before} -> {after}"


def _result(report: jobs.Report) -> str:
    if report.error is not None:
        return "failed in part"
    if report.nothing_to_do:
        return "nothing to do"
    if report.dry_run:
        return "planned"
    return "in part" if report.picks_left or report.dropped else "compacted"


def _remarks(report: jobs.Report) -> Iterator[str]:
    if report.error is not None:
        yield f"error: {' '.join(report.error.split())}"
    if report.skipped:
        yield f"skipped: {report.skipped}"
    yield from (f"warning: {warning}" for warning in report.warnings)
    if report.in_order:
        yield f"{counted(report.in_order, 'partition')} had this order already; --force sorts again"
    if report.dropped:
        yield f"not compacted, as another commit changed the files: {', '.join(report.dropped)}; run again"
    if report.picks_left and not report.dry_run:
        refused = report.error_class == "ProofError"
        yield f"{counted(report.picks_left, 'pick')} left to do" + ("" if refused else "; run again")
    for pick in report.planned if report.dry_run else ():
        yield f"would do {pick}"
    if report.forecast is not None:
        yield f"would take {report.forecast}"
    if report.proof and not report.dry_run and not report.nothing_to_do:
        yield f"proven on {report.engine}: {report.proof}"
