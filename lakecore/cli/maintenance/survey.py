"""This module has `survey` and `health`, which say how healthy the tables of a lake are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.job_options import JobOptions
from lakecore.cli.output import print_json, print_rows, size_text, time_text
from lakecore.cli.session import Session, session_of
from lakecore.errors import NotFoundError
from lakecore.jobs.definitions.survey import SurveyTables

if TYPE_CHECKING:
    from lakecore.jobs.survey import Survey, TableRecord

__all__ = ["health", "survey"]

_COLUMNS = ("table", "state", "score", "files", "size", "runs", "due in days", "why")


def survey(context: typer.Context, options: JobOptions[SurveyTables]) -> None:
    """Look at all tables, store how healthy each one is, and list them, the worst first."""
    from lakecore.jobs import survey as jobs

    session = session_of(context)
    _print(session, jobs.run(options.job(), session.catalog), "*")


def health(
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[GLOB]", help="List only these tables: 'db.*'.")] = "*",
    day: Annotated[str, typer.Option(help="Show the last survey of this day (UTC): 2026-11-22.")] = "",
) -> None:
    """List what the newest survey found, the worst table first; it reads no table."""
    from lakecore.jobs import survey as jobs

    session = session_of(context)
    result = jobs.survey_of_day(session.catalog, day) if day else jobs.latest_survey(session.catalog)
    if result is None:
        when = f"of {day} " if day else ""
        raise NotFoundError(f"there is no survey {when}in {session.catalog.warehouse}; run lakecore survey")
    _print(session, result, pattern)


def _print(session: Session, survey: Survey, pattern: str) -> None:
    from lakecore.jobs.survey import counts

    records = [record for record in survey.tables if fnmatchcase(record.table, pattern)]
    records.sort(key=lambda record: (record.score, record.table))
    if session.json:
        head = {"started_ms": survey.started_ms, "seconds": survey.seconds, "damaged_lines": survey.damaged}
        print_json(session.out, head | {"tables": [record.to_json() for record in records]})
        return
    print_rows(session, [_row(record) for record in records], _COLUMNS)
    states = ", ".join(f"{count} {state}" for state, count in counts(survey).items())
    when = f"surveyed {time_text(survey.started_ms)} in {survey.seconds:.1f} s"
    session.out.print(f"{len(survey.tables)} tables: {states or 'none'}; {when}", markup=False)
    if survey.damaged:
        session.note(f"warning: {survey.damaged} lines of the survey cannot be read and were left out")


def _row(record: TableRecord) -> dict[str, Any]:
    return {
        "table": record.table,
        "state": record.state.value,
        "score": record.score,
        "files": record.figures.files,
        "size": size_text(record.figures.bytes),
        "runs": record.figures.sorted_runs or None,
        "due in days": record.due_in_days,
        "why": record.reasons,
    }
