"""This module tells how far the work of a task is: in its log, and in its state, which the tab of the task
shows. A trigger cannot write the state of a task, so that of a deferred task is an XCom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lakecore_airflow.triggers import PROGRESS_KEY, percent_of, seconds_left

if TYPE_CHECKING:
    from lakecore.jobs.compact import Progress

__all__ = ["PROGRESS_KEY", "ProgressReporter", "TaskProgress", "progress_text"]

logger = logging.getLogger(__name__)

_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """This is how far a task is. `rows` are those of the work that is planned so far; `rows_done` were read,
    also of picks that are not committed yet, and `rows_proven` were read once more for the proof.
    """

    table: str
    picks_done: int
    picks: int
    rows_done: int
    rows: int
    rows_proven: int
    share: float
    """This part of the work is done, from 0 to 1; the proof is work, too."""
    seconds: float
    """These seconds have passed since the work began."""
    seconds_left: float | None
    """These are left if it goes on as so far; None before any work is done."""

    @property
    def percent(self) -> float:
        """Return the share in percent: 100 only when all is done."""
        return percent_of(self.share)


def progress_text(one: TaskProgress) -> str:
    """Return a line for a log: picks, rows, the share of the work, rows a second, and the seconds that are
    left.
    """
    rate = one.rows_done / one.seconds if one.seconds > 0 else 0.0
    rest = "" if one.seconds_left is None else f", {one.seconds_left:.0f} s left"
    return (
        f"{one.table}: {one.picks_done} of {one.picks} picks are committed, {one.rows_done:,} of "
        f"{one.rows:,} rows are read and {one.rows_proven:,} proven ({one.percent} %), {rate:,.0f} rows/s"
        f"{rest}"
    )


class ProgressReporter:
    """It is told of progress, and tells it on: each time in the log, and in the task's state some seconds
    apart.
    """

    def __init__(
        self, table: str, context: Any, log: Any, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._table = table
        self._state = context.get("task_state_store") if hasattr(context, "get") else None
        self._log = log
        self._monotonic = monotonic
        self._began = monotonic()
        self._stored: float | None = None

    def __call__(self, progress: Progress) -> None:
        passed = self._monotonic() - self._began
        one = TaskProgress(
            table=self._table,
            picks_done=progress.picks_done,
            picks=progress.picks,
            rows_done=progress.rows_done,
            rows=progress.rows,
            rows_proven=progress.rows_proven,
            share=round(progress.share, 4),
            seconds=round(passed, 1),
            seconds_left=seconds_left(progress.share, passed),
        )
        self._log.info("%s", progress_text(one))
        if self._stored is None or passed - self._stored >= _EVERY_S or one.share >= 1:
            self._stored = passed
            self._store(one)

    def _store(self, one: TaskProgress) -> None:
        """Store the progress; a task goes on when Airflow cannot."""
        if self._state is None:
            return
        try:
            self._state.set(PROGRESS_KEY, asdict(one) | {"percent": one.percent})
        except Exception as err:  # noqa: BLE001 - progress is for people; the work goes on without
            logger.debug("progress is not stored: %s", err)
