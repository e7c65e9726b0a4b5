"""This module has the options and the loop of commands that follow tables: `compact --follow`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import end_on_errors
from lakecore.cli.session import Session
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.compact import Report
    from lakecore.jobs.compact.follow import CompactionFollower

__all__ = ["Following", "check_following", "follow_tables"]


@dataclass(frozen=True)
class Following:
    """These options say whether and how tables are followed."""

    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep running, and compact what other writers commit, until SIGTERM or Ctrl-C."
        ),
    ] = False
    interval: Annotated[float, typer.Option(min=0.1, help="With --follow: seconds between two looks.")] = 10.0
    rounds: Annotated[int | None, typer.Option(min=1, help="With --follow: end after so many looks.")] = None


def check_following(context: typer.Context, following: Following, *, dry_run: bool) -> None:
    """Raise InvalidInputError for options that do not go together."""
    if not following.follow:
        if following.rounds is not None:
            raise InvalidInputError("--rounds counts the looks of --follow; add it")
        return
    if dry_run:
        raise InvalidInputError("--follow changes tables; leave out --dry-run, or --follow")
    for name in ("commit_user", "commit_identifier", "until"):
        if context.params.get(name) is not None:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(f"{option} belongs to one run; leave it out with --follow")


def follow_tables(
    session: Session,
    following: Following,
    follower: CompactionFollower,
    workers: Executor,
    show: Callable[[Sequence[Any]], None],
) -> None:
    """Follow the tables until a signal or the last round; a second signal ends the process at once.

    Reports of tables with something to do are printed after each round, as JSON one a line. It ends with exit
    code 1 when the last try of a table failed. Raises UnavailableError when the workers have ended.
    """
    from lakecore.jobs.compact.follow import follow

    last: dict[str, Report] = {}

    def tell(reports: Sequence[Report]) -> None:
        last.update({report.table: report for report in reports})
        changed = [report for report in reports if not report.nothing_to_do]
        if session.json:
            for report in changed:
                typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
        elif changed:
            show(changed)

    with stopped_by_signals() as stop:
        follow(follower, workers, stop, tell, interval=following.interval, rounds=following.rounds)
    end_on_errors(session, last.values())
