"""This module has `attempts`, which lists every attempt of every job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import print_rows, size_text, time_text
from lakecore.cli.session import session_of
from lakecore.errors import printable

if TYPE_CHECKING:
    from lakecore.jobs.attempts import Attempt

__all__ = ["attempts"]

_COLUMNS = ("started", "table", "job", "state", "seconds", "expected", "read", "written", "by", "error")
_ERROR_LENGTH = 80


def attempts(
    context: typer.Context,
    table: Annotated[str, typer.Option(metavar="GLOB", help="List only these tables: 'db.*'.")] = "",
    job: Annotated[
        str, typer.Option(help="List only this job, for example compact or expire-snapshots.")
    ] = "",
    state: Annotated[
        str,
        typer.Option(
            help="List only this state: done, nothing, left, failed, refused, busy, on hold, killed or "
            "running.",
        ),
    ] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="List attempts from this time on; by default from 7 days ago.")
    ] = "",
) -> None:
    """List every attempt of every job, oldest first: how it ended, what it took, and who began it."""
    from lakecore.jobs.attempts import AttemptFilter, attempts_of
    from lakecore.jobs.runner.moment import parse_moment

    session = session_of(context)
    since_ms = parse_moment(since, "--since") if since else None
    request = AttemptFilter(table=table, job=job, state=state, since_ms=since_ms)
    matches = attempts_of(session.catalog, request)
    if session.json:
        print_rows(session, [one.to_json() for one in matches.attempts], _COLUMNS)
    else:
        print_rows(session, [_row(one) for one in matches.attempts], _COLUMNS)
    if matches.damaged:
        session.note(f"{matches.damaged} records of attempts cannot be read")


def _row(one: Attempt) -> dict[str, Any]:
    from lakecore.jobs.attempts import started_by

    error = "" if one.error is None else f"{one.error_class}: {one.error}"
    return {
        "started": time_text(one.started_ms),
        "table": one.table or "(the lake)",
        "job": one.job,
        "state": one.state.value,
        "seconds": one.cost.get("seconds"),
        "expected": one.forecast.get("seconds"),
        "read": size_text(one.cost.get("bytes_read")),
        "written": size_text(one.cost.get("bytes_written")),
        "by": started_by(one),
        "error": printable(error, _ERROR_LENGTH),
    }
