"""This module shows progress bars on a terminal for a job over several tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from lakecore.cli.session import Session

if TYPE_CHECKING:  # a command imports them while Spark starts
    from lakecore.jobs import compact as jobs

__all__ = ["TableBars", "table_bars"]


class TableBars:
    """These are the progress bars: one bar of input rows for each running table and, for several tables,
    one bar of tables.
    """

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._all: TaskID | None = None
        self._tables: dict[str, TaskID] = {}

    def tables(self, count: int) -> None:
        """Set the number of tables."""
        self._all = self._bars.add_task("tables", total=count) if count > 1 else None

    def progress(self, job: jobs.Job, progress: jobs.Progress) -> None:
        """Set the bar of one table: a row is done when it is read and proven."""
        if job.table not in self._tables:
            self._tables[job.table] = self._bars.add_task(job.table, total=None)
        rows = int(progress.share * progress.rows)
        self._bars.update(self._tables[job.table], completed=rows, total=progress.rows)

    def finish(self, report: Any) -> None:
        """Mark a table as finished."""
        bar = self._tables.pop(report.table, None)
        if bar is not None:
            self._bars.remove_task(bar)
        if self._all is not None:
            self._bars.advance(self._all)


@contextmanager
def table_bars(session: Session) -> Iterator[TableBars]:
    """Show bars on standard error, if that is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=session.err, transient=True, disable=not session.err.is_terminal) as bars:
        yield TableBars(bars)
