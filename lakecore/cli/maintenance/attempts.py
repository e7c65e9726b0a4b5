"""This module has `attempts`, which lists every attempt of every job."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakecore.cli.output import print_rows, time_text
from lakecore.cli.session import session_of
from lakecore.errors import printable

__all__ = ["attempts"]

_COLUMNS = ("started", "table", "job", "state", "seconds", "by", "error")
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
            help="List only this state: done, nothing, failed, refused, busy, on hold, killed or running.",
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
        print_rows(session, [_row(one.to_json()) for one in matches.attempts], _COLUMNS)
    if matches.damaged:
        session.note(f"{matches.damaged} records of attempts cannot be read")


def _row(raw: dict[str, Any]) -> dict[str, Any]:
    origin = raw["origin"]
    by = origin.get("dag") or origin.get("command") or origin.get("user") or ""
    error = "" if raw["error"] is None else f"{raw['error_class']}: {raw['error']}"
    return {
        "started": time_text(raw["started_ms"]),
        "table": raw["table"],
        "job": raw["job"],
        "state": raw["state"],
        "seconds": raw["cost"].get("seconds"),
        "by": printable(str(by), _ERROR_LENGTH),
        "error": printable(error, _ERROR_LENGTH),
    }
