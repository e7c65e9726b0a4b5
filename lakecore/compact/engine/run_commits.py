"""This module has the commits of one run: under which numbers they are published, until when, and what may
be removed after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Generic, TypeVar

from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits, earlier_commits
from lakecore.compact.engine.cleanup import belongs, remove, sweep
from lakecore.compact.engine.commit_loop import CommitGuard, CommitLoopResult, Commits, commit_fitting
from lakecore.compact.engine.refusal import duplicate_commit
from lakecore.compact.engine.request import RunName
from lakecore.compact.engine.target import RewriteTarget
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot

__all__ = ["MAX_COMMITS", "CommitPlan", "RunCommits", "unit_results"]

MAX_COMMITS = 1000
"""Commits of one run; each takes the next identifier, and identities of task runs lie 1024 apart."""

Item = TypeVar("Item")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan(Generic[Item]):
    """It says how a run commits its items."""

    commits: Commits[Item]
    new_names: Callable[[Item], Iterable[str]]
    """It returns the names of the new files of an item."""
    on_commit: Callable[[CommitLoopResult[Item]], None]
    """It records what became of the items of a commit, also where another run has made it."""
    most: int
    """So many items are enough for a commit."""
    seconds: float = math.inf
    """So long after the last commit, fewer items are enough."""


class RunCommits:
    """These are the commits that one run makes to `target`, one after the other.

    The commits of a name are numbered without gaps: an earlier attempt that is still alive finds its number
    taken, and gives up.
    """

    def __init__(self, target: RewriteTarget, name: RunName, kind: CommitKind = CommitKind.COMPACT) -> None:
        self.target = target
        self.name = name
        self._kind = kind
        self._first = name.identifier
        self.guard = CommitGuard()
        self.earlier = EarlierCommits()
        """It says what an earlier run of the same name had committed."""
        self.identifier = name.identifier
        """The identifier of the next commit."""
        self.committed: set[str] = set()
        """Names of the files that this run has committed."""
        self.commit_count = 0
        """How many commits this run has made."""
        self.stopped = False
        """True when the run has ended because of its time, or because it has made too many commits."""

    def look_back(self, latest: Snapshot) -> None:
        """Find what an earlier run of the same name committed, and continue after it."""
        name = self.name
        if not name.has_name:
            return
        identifiers = range(name.identifier, name.identifier + MAX_COMMITS)
        self.earlier = earlier_commits(
            self.target.stores.snapshots, latest, name.commit_user, identifiers, self._kind
        )
        self.identifier = self._first = self.earlier.next_identifier(name.identifier)

    def names(self, prefixes: tuple[str, ...]) -> AttemptFiles:
        """Return the names of the files of this attempt. `prefixes` are those of the table's files by
        kind.
        """
        run = (self.target.stores.root, self.name.commit_user, self.name.identifier)
        return AttemptFiles.of(prefixes, run, self.target.clock.fresh_id())

    def published(self) -> frozenset[str]:
        """Return the names of the files that the run's user has published."""
        return self.target.committer.published_names(self.name.commit_user)

    def may_continue(self) -> bool:
        """Return whether the run may begin, or wait for, more work."""
        until = self.name.until_ms
        if until is not None and self.target.clock.now_ms() >= until:
            self.stopped = True
        if self.identifier - self._first >= MAX_COMMITS:
            self.stopped = True
        return not self.stopped

    def commit_all(self, groups: Generator[Sequence[Item]], plan: CommitPlan[Item]) -> None:
        """Commit the items of `groups` as they come: those that fit, in batches, each in one snapshot.

        Raises what `groups` and `commit_fitting` raise, and CommitConflictError where another run of this
        name has made the commit. `groups` is closed at the end, also after an exception.
        """
        with closing(groups):
            for items in self._batches(groups, plan):
                identity = (self.name.commit_user, self.identifier)
                with self.guard.committing():
                    landed = commit_fitting(self.target.committer, items, identity, plan.commits)
                    if landed.items and not landed.duplicate:
                        self.add(new for item in landed.items for new in plan.new_names(item))
                plan.on_commit(landed)
                if landed.duplicate:
                    raise duplicate_commit(*identity, landed.snapshots[-1])

    def _batches(self, groups: Iterable[Sequence[Item]], plan: CommitPlan[Item]) -> Iterator[Sequence[Item]]:
        """Yield the items when there are enough for a commit, or the last commit was long ago; then the
        rest.
        """
        clock = self.target.clock
        ready: list[Item] = []
        since = clock.monotonic()
        for group in groups:
            ready += group
            if len(ready) >= plan.most or clock.monotonic() - since >= plan.seconds:
                yield ready
                ready = []
                since = clock.monotonic()
        if ready:
            yield ready

    def add(self, names: Iterable[str]) -> None:
        """Record that a commit with these new files is published."""
        self.committed.update(names)
        self.commit_count += 1
        if self.identifier != BATCH_IDENTIFIER:
            self.identifier += 1

    def clean(
        self,
        paths: Iterable[str],
        directories: Iterable[str] = (),
        is_own: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Remove the files at `paths`, and new files of the buckets with these `directories` whose name
        `is_own`, but those that are committed. After an uncertain commit nothing is removed.
        """
        if self.guard.uncertain:
            return
        file_io, committed = self.target.stores.file_io, self.committed
        debris = [path for path in paths if path.rpartition("/")[2] not in committed]
        remove(file_io, debris, self.published)
        sweep(
            file_io,
            self.target.reading.directories_of_new_files(directories),
            lambda name, _: is_own(name) and not belongs(name, committed),
            self.published,
        )


def unit_results(
    executor: Executor,
    function: Callable[[Any], Result],
    units: Iterable[Task],
    may_continue: Callable[[], bool],
) -> Generator[Result | BaseException]:
    """Yield the results of units in order. No unit begins after `may_continue` returned False.

    Closing it makes the executor give up the units whose results it has not returned.
    """
    results = iter(executor.run(function, (unit for unit in units if may_continue())))
    try:
        yield from results
    finally:
        if isinstance(results, Generator):
            results.close()
