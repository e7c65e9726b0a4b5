"""This module follows tables and compacts those that others have written to, round after round.

It keeps nothing on storage: each round looks at the tables, and each compaction is the job `compact`. A
process that is killed at any moment loses nothing but unfinished work, and the next one looks at all tables
again. A table without a new snapshot costs one look and one small read a round. A table whose compaction
fails is tried again after 2, 4, …, at most 64 rounds; one that another chore holds in the next round. When
the engine has ended, following ends with its error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import LakeError
from lakecore.executor import Executor
from lakecore.jobs.compact.report import Report
from lakecore.jobs.runner.lake import Lake
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.snapshots import SnapshotStore

__all__ = ["CompactionFollower", "follow"]

_MOST_PAUSE = 64
_LIST_EVERY = 10


@dataclass
class _FollowedTable:
    """It is what is known of one table."""

    snapshots: SnapshotStore
    last_snapshot: Snapshot | None = None
    """After this snapshot nothing was left to do."""
    failures: int = 0
    rest_until: int = 0
    """It is not looked at before the round of this number."""

    def has_changed(self) -> bool:
        """Return whether somebody has committed, or rolled back, since `last_snapshot`."""
        if self.last_snapshot is None:
            return self.snapshots.latest() is not None
        paths = self.snapshots.paths
        if self.snapshots.file_io.stat(paths.snapshot(self.last_snapshot.id + 1)) is not None:
            return True
        return self.snapshots.find(self.last_snapshot.id) != self.last_snapshot


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
        self._lake = lake
        self._names = names
        self._compact = compact
        self._round = 0
        self._listed: tuple[str, ...] = ()
        self._tables: dict[str, _FollowedTable] = {}

    def run_round(self) -> tuple[Report, ...]:
        """Compact the tables that have changed; return their reports, and those of tables that could not be
        read.

        The names are listed anew in every tenth round. Raises the errors of `names`.
        """
        if self._round % _LIST_EVERY == 0:
            self._listed = tuple(self._names())
            self._tables = {name: one for name, one in self._tables.items() if name in set(self._listed)}
        self._round += 1
        changed: dict[str, Snapshot | None] = {}
        reports: list[Report] = []
        for name in self._listed:
            try:
                if self._is_due(name):
                    changed[name] = self._tables[name].snapshots.latest()
            except LakeError as err:
                reports.append(Report(table=name, strategy=Strategy.UNIVERSAL, engine="none").failed(err))
                self._pause(name)
        for name, report in zip(changed, self._compact(tuple(changed)) if changed else (), strict=True):
            self._settle(name, report, changed[name])
            reports.append(report)
        return tuple(reports)

    def _is_due(self, name: str) -> bool:
        if name not in self._tables:
            self._tables[name] = _FollowedTable(self._lake.load_table(name)._stores.snapshots)
        followed = self._tables[name]
        return self._round >= followed.rest_until and followed.has_changed()

    def _settle(self, name: str, report: Report, before: Snapshot | None) -> None:
        """Remember what the table looked like when nothing was left to do."""
        followed = self._tables[name]
        followed.last_snapshot = None
        if report.error is not None:
            self._pause(name)
            return
        followed.failures = 0
        if report.skipped or report.picks_left or report.dropped:
            return
        try:
            latest = followed.snapshots.latest()
        except LakeError:
            return  # the next round says what is wrong
        followed.last_snapshot = latest if _is_alone(report, before, latest) else before

    def _pause(self, name: str) -> None:
        """Leave a table that failed alone for some rounds; one that cannot be opened is tried in each
        round.
        """
        followed = self._tables.get(name)
        if followed is not None:
            followed.failures += 1
            followed.rest_until = self._round + min(2**followed.failures, _MOST_PAUSE)


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
