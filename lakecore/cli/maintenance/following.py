"""This module has the options and the loop of commands that follow tables: `compact --follow`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakecore.cli.output import end_on_errors
from lakecore.cli.session import Session
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.compact import Report
    from lakecore.jobs.compact.follow import CompactionFollower

__all__ = ["Following", "RoundReports", "check_following", "follow_tables"]


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
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="With --follow: run as a query of Structured Streaming with this checkpoint location, which "
            "goes on where an earlier one was killed; --rounds 1 is its trigger availableNow."
        ),
    ] = None


def check_following(context: typer.Context, following: Following, *, dry_run: bool) -> None:
    """Raise InvalidInputError for options that do not go together."""
    if not following.follow:
        if following.rounds is not None:
            raise InvalidInputError("--rounds counts the looks of --follow; add it")
        if following.checkpoint is not None:
            raise InvalidInputError("--checkpoint belongs to the query of --follow; add it")
        return
    if following.checkpoint is not None and following.rounds not in (None, 1):
        raise InvalidInputError(
            f"--rounds {following.rounds}: a streaming query does not count its looks; with --checkpoint use "
            "--rounds 1, or leave it out"
        )
    if dry_run:
        raise InvalidInputError("--follow changes tables; leave out --dry-run, or --follow")
    for name in ("commit_user", "commit_identifier", "until"):
        if context.params.get(name) is not None:
            option = "--" + name.replace("_", "-")
            raise InvalidInputError(f"{option} belongs to one run; leave it out with --follow")


class RoundReports:
    """It shows the reports of each round: those of tables with something to do, as JSON one a line."""

    def __init__(self, session: Session, show: Callable[[Sequence[Any]], None]) -> None:
        self._session = session
        self._show = show
        self._last: dict[str, Report] = {}

    def print_round(self, reports: Sequence[Report]) -> None:
        """Show the reports of a round."""
        self._last.update({report.table: report for report in reports})
        changed = [report for report in reports if not report.nothing_to_do]
        if self._session.json:
            for report in changed:
                typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
        elif changed:
            self._show(changed)

    def end(self) -> None:
        """End with exit code 1 when the last try of a table failed."""
        end_on_errors(self._session, self._last.values())


def follow_tables(
    session: Session,
    following: Following,
    follower: CompactionFollower,
    workers: Executor,
    show: Callable[[Sequence[Any]], None],
) -> None:
    """Follow the tables until a signal or the last round; a second signal ends the process at once.

    It ends with exit code 1 when the last try of a table failed. Raises UnavailableError when the workers
    have ended.
    """
    from lakecore.jobs.compact.follow import follow

    output = RoundReports(session, show)
    with stopped_by_signals() as stop:
        follow(
            follower, workers, stop, output.print_round, interval=following.interval, rounds=following.rounds
        )
    output.end()
