"""This module follows tables and compacts those that others have written to, round after round.

It keeps nothing on storage: each round looks at the tables, and each compaction is the job `compact`. A
process that is killed at any moment loses nothing but unfinished work, and the next one looks at all tables
again. A table without a new snapshot costs one look and one small read a round. A table whose compaction
fails, or that cannot be opened, is tried again after 2, 4, …, at most 64 rounds; one that another chore holds
in the next round. When the engine has ended, following ends with its error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import LakeError
from lakecore.executor import Executor
from lakecore.jobs.compact.report import Report
from lakecore.jobs.compact.table_states import TableState, TableStates
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.watching.watch import WatchPosition, watch_position
from lakecore.metadata.snapshot import Snapshot

__all__ = ["CompactionFollower", "follow"]


class CompactionFollower:
    """It follows the tables that `names` returns; `compact` compacts some of them and returns a report for
    each, in order.
    """

    def __init__(
        self,
        lake: Lake,
        names: Callable[[], Sequence[str]],
        compact: Callable[[Sequence[str]], Sequence[Report]],
    ) -> None:
        self._tables = TableStates(lake, names)
        self._compact = compact
        self._round = 0

    @property
    def states(self) -> Mapping[str, TableState]:
        """Return what is known of each table."""
        return self._tables.states

    def restore(self, states: Mapping[str, TableState]) -> None:
        """Take over what an earlier process knew."""
        self._tables.restore(states)

    def run_round(self) -> tuple[Report, ...]:
        """Compact the tables that have changed; return their reports, and those of tables that could not be
        read.

        The names are listed anew in every tenth round. Raises the errors of `names`.
        """
        self._round += 1
        due = self._tables.due(self._round)
        failed = [self._report_failure(name, err, self._round) for name, err in due.errors.items()]
        return (*failed, *self._compact_due(due.names, self._round))

    def compact_due(self, names: Sequence[str], number: int) -> tuple[Report, ...]:
        """Compact the tables that somebody else found to be due in the round `number`, as `run_round` does.

        Raises the errors of `names`, which are listed when ten rounds have passed.
        """
        self._tables.list_names(number)
        return self._compact_due(names, number)

    def _compact_due(self, names: Sequence[str], number: int) -> tuple[Report, ...]:
        before: dict[str, Snapshot | None] = {}
        reports: list[Report] = []
        for name in names:
            try:
                before[name] = self._tables.snapshots(name).latest()
            except LakeError as err:
                reports.append(self._report_failure(name, err, number))
        for name, report in zip(before, self._compact(tuple(before)) if before else (), strict=True):
            self._settle(name, report, before[name], number)
            reports.append(report)
        return tuple(reports)

    def _settle(self, name: str, report: Report, before: Snapshot | None, number: int) -> None:
        """Remember what the table looked like when nothing was left to do."""
        if report.error is not None:
            self._pause(name, number)
        elif report.skipped or report.picks_left or report.dropped:
            self._tables.settle(name, None)
        else:
            self._tables.settle(name, self._position_after(name, report, before))

    def _position_after(self, name: str, report: Report, before: Snapshot | None) -> WatchPosition | None:
        try:
            latest = self._tables.snapshots(name).latest()
        except LakeError:
            return None  # the next round says what is wrong
        last = latest if _is_alone(report, before, latest) else before
        return None if last is None else watch_position(last)

    def _report_failure(self, name: str, error: LakeError, number: int) -> Report:
        self._pause(name, number)
        return Report(table=name, strategy=Strategy.UNIVERSAL, engine="none").failed(error)

    def _pause(self, name: str, number: int) -> None:
        """Leave a table that failed alone for some rounds."""
        self._tables.remember(name, self._tables.state(name).after_failure(number))


def _is_alone(report: Report, before: Snapshot | None, latest: Snapshot | None) -> bool:
    """Return whether the compaction made all snapshots after `before`: then it has seen all other files."""
    first = 1 if before is None else before.id + 1
    return latest is not None and set(range(first, latest.id + 1)) <= set(report.snapshots)


def follow(
    follower: CompactionFollower,
    executor: Executor,
    stop: threading.Event,
    on_round: Callable[[tuple[Report, ...]], None],
    *,
    interval: float,
    rounds: int | None = None,
) -> None:
    """Run a round every `interval` seconds until `stop` is set, or so many rounds. A round that runs is
    ended first. Raises UnavailableError when the executor, which compacts, has ended.
    """
    count = 0
    while not stop.is_set():
        on_round(follower.run_round())
        executor.check()
        count += 1
        if count == rounds or stop.wait(interval):
            return
