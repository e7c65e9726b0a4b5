"""This module has `survey` and `health`, which say how healthy the tables of a lake are."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.output import print_json, print_rows, size_text, time_text
from lakecore.cli.session import Session, session_of
from lakecore.errors import NotFoundError
from lakecore.jobs.definitions.survey import SurveyTables
from lakecore.maintain.table_key import table_key
from lakecore.types.counted import counted

if TYPE_CHECKING:
    from lakecore.jobs.attempts import Attempt
    from lakecore.jobs.survey import Survey, TableRecord

__all__ = ["health", "survey"]

_COLUMNS = ("table", "state", "score", "files", "size", "runs", "due in days", "last done", "why")


def survey(context: typer.Context, options: JobOptions[SurveyTables]) -> None:
    """Look at all tables, store how healthy each one is, and list them, the worst first."""
    from lakecore.jobs import survey as jobs

    session = session_of(context)
    _print(session, jobs.run(options.job(), session.catalog), "*", {})


def health(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[GLOB]", help="List only these tables: 'db.*'.")] = "*",
    day: Annotated[str, typer.Option(help="Show the last survey of this day (UTC): 2026-11-22.")] = "",
) -> None:
    """List what the newest survey found, the worst table first, and what maintenance did in the last 7 days;
    it reads no table.
    """
    from lakecore.jobs import attempts as ledger
    from lakecore.jobs import survey as jobs

    session = session_of(context)
    result = jobs.survey_of_day(session.catalog, day) if day else jobs.latest_survey(session.catalog)
    if result is None:
        when = f"of {day} " if day else ""
        raise NotFoundError(f"there is no survey {when}in {session.catalog.warehouse}; run lakecore survey")
    attempts = ledger.attempts_of(session.catalog, ledger.AttemptFilter()).attempts
    _print(session, result, pattern, ledger.newest_by_table(attempts))
    failures = sum(one.state in ledger.FAILURES and fnmatchcase(one.table, pattern) for one in attempts)
    if failures and not session.json:
        text = (
            f"{counted(failures, 'attempt')} of the last {ledger.DEFAULT_DAYS} days failed: lakecore attempts"
        )
        session.out.print(text, markup=False)


def _print(
    session: Session, survey: Survey, pattern: str, attempts: Mapping[str, Mapping[str, Attempt]]
) -> None:
    from lakecore.jobs.survey import counts

    records = [record for record in survey.tables if fnmatchcase(record.table, pattern)]
    records.sort(key=lambda record: (record.score, record.table))
    if session.json:
        head = {"started_ms": survey.started_ms, "seconds": survey.seconds, "damaged_lines": survey.damaged}
        tables = [_plain(record, attempts.get(table_key(record.table), {})) for record in records]
        print_json(session.out, head | {"tables": tables})
        return
    rows = [_row(record, attempts.get(table_key(record.table), {})) for record in records]
    print_rows(session, rows, _COLUMNS)
    states = ", ".join(f"{count} {state}" for state, count in counts(survey).items())
    when = f"surveyed {time_text(survey.started_ms)} in {survey.seconds:.1f} s"
    session.out.print(f"{counted(len(survey.tables), 'table')}: {states or 'none'}; {when}", markup=False)
    if survey.damaged:
        session.note(f"warning: {survey.damaged} lines of the survey cannot be read and were left out")


def _plain(record: TableRecord, attempts: Mapping[str, Attempt]) -> dict[str, Any]:
    """Return the record as plain values, with the newest attempt of each job."""
    newest = {job: {"state": one.state.value, "started_ms": one.started_ms} for job, one in attempts.items()}
    return record.to_json() | {"attempts": newest}


def _row(record: TableRecord, attempts: Mapping[str, Attempt]) -> dict[str, Any]:
    from lakecore.jobs.attempts import AttemptState

    finished = [one for one in attempts.values() if one.state is AttemptState.DONE]
    last = max(finished, key=lambda one: one.started_ms, default=None)
    return {
        "table": record.table,
        "state": record.state.value,
        "score": record.score,
        "files": record.figures.files,
        "size": size_text(record.figures.bytes),
        "runs": record.figures.sorted_runs or None,
        "due in days": record.due_in_days,
        "last done": last and f"{last.job} {time_text(last.started_ms)}",
        "why": record.reasons,
    }
