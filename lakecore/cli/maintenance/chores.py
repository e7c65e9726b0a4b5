"""The parts that maintenance commands share: common options, running jobs over tables, printing reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

import typer

from lakecore.cli.engine import Engine, executor
from lakecore.cli.lease_time import LeaseTimes
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import end_on_errors, print_json, size_text, table_of
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_bars import table_bars
from lakecore.cli.table_names import expand_tables
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.runner.chore import Lake, Report, Safety
from lakecore.jobs.runner.chore_many import TABLES_AT_ONCE, run_many
from lakecore.jobs.runner.counts import Counts
from lakecore.jobs.runner.moment import parse_moment, parse_span
from lakecore.maintain.forecast.plan import Forecast
from lakecore.options import parse_size
from lakecore.types.counted import counted

__all__ = [
    "OlderThan",
    "OneTable",
    "Options",
    "QuarantineLimits",
    "RemovalOptions",
    "RunEngine",
    "SafetyOptions",
    "Tables",
    "forecast_text",
    "moment",
    "run_jobs",
    "span",
    "tables_of",
]

J = TypeVar("J")


class DryRunReport(Protocol):
    """The report that a dry run prints."""

    @property
    def forecast(self) -> Forecast | None: ...

    @property
    def before(self) -> Counts | None: ...

    @property
    def after(self) -> Counts | None: ...


Tables = Annotated[list[str], typer.Argument(metavar="DB.TABLE...", help="Names and globs ('db.*').")]
OneTable = Annotated[str, typer.Argument(metavar="DB.TABLE", help="The table, or db.table$branch_NAME.")]
Options = Annotated[list[str] | None, typer.Option("--option", help="Table option for this run: key=value.")]
OlderThan = Annotated[
    str | None, typer.Option(help="Date and time (UTC unless it has an offset), or milliseconds since 1970.")
]
RunEngine = Annotated[Engine, typer.Option(help="Where files are deleted, and many directories listed.")]

_SHOWN = 10
_ON_HOLD = 2
_SEVERAL = Concurrency()


def moment(text: str | None, option: str) -> int | None:
    """Parse a time; return milliseconds since the epoch."""
    return None if text is None else parse_moment(text, option)


def span(text: str | None, option: str) -> int | None:
    """Parse a duration; return milliseconds."""
    return None if text is None else parse_span(text, option)


@dataclass(frozen=True)
class SafetyOptions(LeaseTimes):
    """The safety options of chores that remove nothing."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")] = False

    @property
    def safety(self) -> Safety:
        """Return the safety settings. Raises InvalidInputError for text that is no duration."""
        return Safety(quarantine_cap=None, lease_ms=self.lease_ms, wait_ms=self.wait_ms)


@dataclass(frozen=True)
class QuarantineLimits:
    """The limits of what stays in the quarantine."""

    quarantine_ttl: Annotated[str, typer.Option(help="How long the quarantine keeps a run.")] = "7 d"
    quarantine_cap: Annotated[
        str,
        typer.Option(help="Bytes that it keeps; the oldest runs beyond them are deleted. 'none': no limit."),
    ] = "100 gb"

    @property
    def ttl_ms(self) -> int:
        """Return the time to live in milliseconds. Raises InvalidInputError."""
        return parse_span(self.quarantine_ttl, "--quarantine-ttl")

    @property
    def cap(self) -> int | None:
        """Return the limit in bytes. Raises InvalidInputError."""
        try:
            text = self.quarantine_cap.strip()
            return None if text.lower() == "none" else parse_size(text)
        except ValueError as err:
            raise InvalidInputError(f"--quarantine-cap {self.quarantine_cap!r}: {err}") from err


@dataclass(frozen=True)
class RemovalOptions(QuarantineLimits, SafetyOptions):
    """The safety options of chores that remove files."""

    quarantine: Annotated[
        bool | None,
        typer.Option(
            "--quarantine/--no-quarantine", help="Move files aside, for `undo`; or delete them at once."
        ),
    ] = None

    @property
    def safety(self) -> Safety:
        """Return the safety settings. Raises InvalidInputError for text that is no duration or size."""
        return Safety(
            quarantine=self.quarantine,
            quarantine_ttl_ms=self.ttl_ms,
            quarantine_cap=self.cap,
            lease_ms=self.lease_ms,
            wait_ms=self.wait_ms,
        )


def tables_of(context: typer.Context, patterns: Sequence[str]) -> list[str]:
    """Return the tables that the arguments of a command name."""
    return expand_tables(session_of(context).catalog, patterns)


def run_jobs(
    context: typer.Context,
    work: Sequence[J],
    run: Callable[[J, Lake, Executor], Report],
    engine: Engine = Engine.LOCAL,
    concurrency: Concurrency = _SEVERAL,
    *,
    passes_over: bool = True,
) -> None:
    """Run the jobs, several at once, and print their reports. The exit code is 1 when one failed, else 2 when
    a hold stopped one.

    `passes_over`: when there are several tables, one that another chore holds is left to the next run;
    otherwise it fails.
    """
    session = session_of(context)
    catalog = session.catalog
    with executor(engine, None, {}) as workers, table_bars(session) as bars:
        bars.tables(len(work))
        reports = run_many(
            work,
            lambda job: run(job, catalog, workers),
            catalog,
            limits=concurrency.limits(TABLES_AT_ONCE),
            on_done=bars.done,
            passes_over=passes_over,
        )
    if session.json:
        print_json(session.out, [report.to_json() for report in reports])
    else:
        _print(session, reports)
    end_on_errors(session, reports)
    if any(report.held for report in reports):
        raise typer.Exit(_ON_HOLD)


def _print(session: Session, reports: Sequence[Report]) -> None:
    columns = ["table", "result", "snapshots", "files", "size", "seconds"]
    session.out.print(table_of(columns, [_row(report) for report in reports], whole=2))
    for report in reports:
        for line in _remarks(report):
            session.out.print(f"{report.table}: {line}", markup=False)


def _row(report: Report) -> list[Any]:
    files = report.files or None
    return [
        report.table,
        _result(report),
        len(report.snapshots) or None,
        files,
        size_text(report.bytes) if files else None,
        f"{report.seconds:.1f}",
    ]


def _result(report: Report) -> str:
    if report.error is not None:
        return "failed"
    if report.skipped:
        return "skipped"
    if report.held and (report.nothing_to_do or not report.names):
        return "on hold"
    if report.nothing_to_do:
        return "nothing to do"
    return "planned" if report.dry_run else "done"


def forecast_text(report: DryRunReport) -> Iterator[str]:
    """Return what a dry run says about the run and the table."""
    if report.forecast is not None:
        yield f"would take {report.forecast}"
    if report.before is not None and report.after is not None:
        yield f"the table would have: {report.before.towards(report.after)}"


def _range(snapshots: Sequence[int]) -> str:
    first, last = snapshots[0], snapshots[-1]
    return f"snapshot {first}" if first == last else f"snapshots {first}-{last}"


def _remarks(report: Report) -> Iterator[str]:
    if report.error is not None:
        yield f"error: {' '.join(report.error.split())}"
    if report.skipped:
        yield f"skipped: {report.skipped}"
    if report.held:
        yield report.held
    if report.resumed:
        yield f"finished {counted(report.resumed, 'interrupted run')} first"
    if report.snapshots:
        verb = "would be removed" if report.dry_run else "removed"
        yield f"{verb}: {_range(report.snapshots)}"
    if report.names:
        rest = len(report.names) - _SHOWN
        yield ", ".join(report.names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    if report.blocker:
        yield f"nothing more is done: {report.blocker}"
    if report.spared:
        yield f"{counted(report.spared, 'file')} stayed, needed again meanwhile"
    yield from report.notes
    yield from forecast_text(report)
    if report.quarantined and report.run and report.files and not report.dry_run:
        yield f"kept in quarantine; take it back with: lakecore undo {report.run}"
