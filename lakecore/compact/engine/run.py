"""This module has one run of a kind of rewriting over one table: plan, run units, prove, commit, and plan
again.

It keeps the promises of `lakecore.compact.engine.driver`. A run that is started again under its name goes on
where the first stopped: its commits are numbered, and files that the first did not commit are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits
from lakecore.compact.engine.deletion_vectors import VectorUpdates
from lakecore.compact.engine.driver import Driver, RunSettings
from lakecore.compact.engine.outcome import GroupFigures, Outcome, RunRecord
from lakecore.compact.engine.refusal import PickFailure, failure_of
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.run_commits import RunCommits
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import (
    ManifestLists,
    PickOutline,
    Place,
    PlannedRound,
    Round,
    RoundPlan,
    outlines_of,
)
from lakecore.data_class import dataclass
from lakecore.executor import Executor, SerialExecutor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.shape import Shape, planned_shape
from lakecore.metadata.snapshot import Snapshot
from lakecore.progress import Progress, RunProgress
from lakecore.scan.filters import ScanFilter
from lakecore.verify.proof.second_decoder import SecondDecoders

__all__ = ["TELL_SECONDS", "Kind", "RewriteRun"]

logger = logging.getLogger(__name__)

TELL_SECONDS = 5.0
"""Between two commits progress is told so often."""

_Rounds = Generator[tuple[RoundPlan, VectorUpdates]]


class Kind(Protocol):
    """One way to rewrite files of a table: it decides what is done, and the run does it."""

    before: ManifestEntries
    """These are the live files of what is planned, as they were before its first round."""

    @property
    def name(self) -> str:
        """Return the name of the history of earlier runs that tells how long a run takes."""
        ...

    @property
    def seed(self) -> str:
        """Return the seed that chooses the rows that are decoded a second time."""
        ...

    @property
    def max_rounds(self) -> int:
        """Return the largest number of rounds."""
        ...

    @property
    def retries_lost(self) -> bool:
        """Return whether later rounds plan what other commits changed; if not, what the round before had
        picked.
        """
        ...

    @property
    def one_vector_file(self) -> bool:
        """Return whether a bucket has one file of deletion vectors at most."""
        ...

    @property
    def scope(self) -> ScanFilter:
        """Return the scope of the run."""
        ...

    @property
    def whole_reason(self) -> str:
        """Return why the table must be planned as a whole; the text is empty if groups of its buckets may be
        planned alone.
        """
        ...

    @property
    def has_levels(self) -> bool:
        """Return whether the files of a level of a bucket are one sorted run."""
        ...

    @property
    def in_order(self) -> int:
        """Return the number of partitions that are skipped, because an earlier run put their rows in
        order.
        """
        ...

    def check(self) -> None:
        """Raise UnsupportedError, InvalidInputError for tables and requests that the kind does not
        support.
        """
        ...

    def start(self, snapshot: Snapshot, landed: EarlierCommits) -> None:
        """Look at the first snapshot, and at what an earlier run of the same name committed."""
        ...

    def prepare(
        self, run: RewriteRun, snapshot: Snapshot | None, prefixes: tuple[str, ...], executor: Executor
    ) -> Snapshot | None:
        """Do what must come before the first round, and return the snapshot to plan from then."""
        ...

    def plan(self, view: Round) -> PlannedRound:
        """Return what a round does. Nothing is written."""
        ...

    def finish(self, run: RewriteRun, names: AttemptFiles) -> None:
        """Do what comes after the last round; not called after an exception."""
        ...


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt begins with the snapshot that it saw first, the names of its files, the groups that are
    planned one after the other, and perhaps the plan of the first round.
    """

    snapshot: Snapshot | None
    names: AttemptFiles
    groups: tuple[ScanFilter, ...]
    planned: PlannedRound | None = None

    def plan_for(self, snapshot: Snapshot | None, executor: Executor) -> PlannedRound | None:
        """Return the plan, if it is one for `snapshot` and for the units that `executor` runs at once."""
        planned = self.planned
        if planned is None or snapshot is not self.snapshot:
            return None
        if any(pick.place.bucket < 0 for pick in planned.outlines or ()):  # their step comes before a round
            return None
        return planned if planned.parallelism in (None, executor.parallelism) else None


class RewriteRun:
    """One run over one table, with what it saw and did, also after an exception.

    `on_begin` is called once, before anything is written; what it raises ends the run.
    """

    def __init__(
        self,
        target: RewriteTarget,
        request: CompactRequest,
        kind: Kind,
        on_progress: Callable[[Progress], None] | None,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        self.target = target
        self.request = request
        self.kind = kind
        self._progress = RunProgress(on_progress, target.clock.monotonic, TELL_SECONDS)
        self._on_begin = on_begin
        self.decoders = SecondDecoders(target.reading.file_io, kind.seed)
        self.commits = RunCommits(target, request.run)
        self.record = RunRecord()
        self.picks_planned = 0
        """0 when there was nothing to do."""
        self.groups: list[GroupFigures] = []
        """These are the figures of the groups that were planned, in their order."""
        self._lists: ManifestLists | None = None
        """These are the manifests of the snapshot that groups were made of."""
        self._attempt: _Attempt | None = None
        self._planned: PlannedRound | None = None
        self._rounds_run = 0
        self.refused: dict[bytes, PickFailure] = {}
        """Partitions that the kind could not prepare, and why."""

    @property
    def outcome(self) -> Outcome:
        """Return what is committed so far, also after an exception."""
        return self.record.outcome

    @property
    def landed(self) -> EarlierCommits:
        """Return what an earlier run of the same name had committed."""
        return self.commits.earlier

    def plan(self) -> RoundPlan:
        """Return what the first round would do; nothing is written, and no row is read."""
        view = Round(snapshot=self._start(), executor=SerialExecutor(), file_prefix="none", dry=True)
        plan = self._plan(view).build()
        self.picks_planned = len(plan.picks)
        return plan

    def _plan(self, view: Round) -> PlannedRound:
        """Return what the kind does in a round; it is given the manifests that this run has listed."""
        return self.kind.plan(replace(view, lists=self._lists))

    def outline(self) -> tuple[PickOutline, ...]:
        """Return what the first round would do, in numbers: `plan` without units."""
        snapshot = self._start()
        planned: list[PickOutline] = []
        for where in self._groups(snapshot):
            planned += self._outline_group(snapshot, where)
        self.picks_planned = len(planned)
        return tuple(planned)

    def _outline_group(self, snapshot: Snapshot | None, where: ScanFilter) -> tuple[PickOutline, ...]:
        """Return what the first round of a group would do."""
        outlines: tuple[PickOutline, ...] = ()
        try:
            view = Round(
                snapshot=snapshot, executor=SerialExecutor(), file_prefix="none", where=where, dry=True
            )
            planned = self._plan(view)
            outlines = outlines_of(planned.build().picks) if planned.outlines is None else planned.outlines
            return outlines
        finally:
            self._close_group(where, planned=outlines)

    def plan_first_round(self, executor: Executor) -> tuple[PickOutline, ...]:
        """Return what the first round would do, as `outline` does, and keep the plan: `run` goes on with it.
        Of a table that is planned in groups it is the first round of the first group that has picks.

        `executor` is that of the units. It may choose its engine after this.
        """
        attempt = self._open_attempt()
        for number, where in enumerate(attempt.groups, 1):
            planned = self._plan_kept(attempt, where, executor)
            if planned.outlines or number == len(attempt.groups):
                break
            self._close_group(where)  # nothing is due there
        self._attempt = replace(attempt, groups=attempt.groups[number - 1 :], planned=planned)
        return planned.outlines or ()

    def _plan_kept(self, attempt: _Attempt, where: ScanFilter, executor: Executor) -> PlannedRound:
        """Return the first round of a group, with its outlines."""
        view = Round(
            snapshot=attempt.snapshot,
            executor=executor,
            file_prefix=f"{attempt.names.own[0]}-0",
            where=where,
            dry=True,
        )
        planned = self._plan(view)
        if planned.outlines is None:  # to build it may sample rows, so it is built once
            round_plan = planned.build()
            outlines = outlines_of(round_plan.picks)
            planned = replace(planned, build=lambda: round_plan, outlines=outlines)
        return planned

    def _open_attempt(self) -> _Attempt:
        """Look at the table, after all checks, and name the files of this attempt."""
        snapshot = self._start()
        options = self.target.reading.options
        names = self.commits.names((options.data_file_prefix, options.changelog_file_prefix))
        return _Attempt(snapshot, names, self._groups(snapshot))

    def _groups(self, snapshot: Snapshot | None) -> tuple[ScanFilter, ...]:
        """Return the groups of buckets that are planned one after the other: the scope alone, where it is
        small, or must be planned as a whole.
        """
        kind, most = self.kind, self.request.group_files
        if snapshot is None or kind.whole_reason:
            return (kind.scope,)
        scanner = self.target.scanner.with_lists(snapshot)
        self._lists = scanner.lists
        groups = tuple(scanner.groups(snapshot, kind.scope, most=most, undivided=most))
        if len(groups) > 1:
            logger.info("%s: its files are planned in %d groups of buckets", self.target.name, len(groups))
        return groups or (kind.scope,)

    def run(self, executor: Executor) -> None:
        """Do it. Raises UnsupportedError, InvalidInputError before anything is touched; else what units and
        commits raise. Failed picks do not hold back others: their error is raised at the end.
        """
        request, target = self.request, self.target
        attempt, self._attempt = self._attempt or self._open_attempt(), None
        snapshot, names, groups = attempt.snapshot, attempt.names, attempt.groups
        driver = Driver(
            self.commits, self.record, self.decoders, RunSettings(is_own=names.has), self._progress
        )
        prepared = self.kind.prepare(self, snapshot, names.own, executor)
        self._planned = attempt.plan_for(prepared, executor)
        del attempt  # a plan may be large
        failures: list[PickFailure] = []
        with closing(self._rounds_of(groups, prepared, names.own[0], executor, failures)) as rounds:
            for plan, upkeep in rounds:
                failures += driver.run(plan, executor, upkeep)
        if failures:
            raise failure_of(target.name, failures)
        if snapshot is not None and not self.outcome.snapshots:
            target.stores.snapshots.catch_up_latest(snapshot.id)
        if self.outcome.snapshots and request.run.has_name:
            directories = target.reading.directories_of_new_files(self.outcome.directories)
            names.remove_older(target.stores.manifests, directories, self.landed, self.commits.published)
        self.kind.finish(self, names)
        if self.refused:
            rest = self.outcome.picks_left + len(self.refused)
            self.record.outcome = replace(self.outcome, picks_left=rest)
            self.picks_planned += len(self.refused)
            raise failure_of(target.name, list(self.refused.values()))

    def _rounds_of(
        self,
        groups: Sequence[ScanFilter],
        snapshot: Snapshot | None,
        prefix: str,
        executor: Executor,
        failures: Sequence[PickFailure],
    ) -> _Rounds:
        """Yield the rounds of group after group, until the time is over or the units were stopped. A group
        that was not planned then counts as one pick that is left. `failures` are those of the picks so far,
        to which whoever runs the rounds adds.
        """
        picks_left, groups_left = 0, len(groups)
        self._progress.set_groups(len(groups))
        try:
            for where in groups:
                if groups_left < len(groups):
                    if not self.commits.may_continue():
                        break
                    picks_left += self.outcome.picks_left
                    self.record.outcome = replace(self.outcome, picks_left=0)
                    snapshot = self.target.stores.snapshots.latest()
                groups_left -= 1
                self._progress.begin_group()
                failures_before = len(failures)
                yield from self._group_rounds(
                    self._rounds(snapshot, where, prefix, executor), where, failures
                )
                if self.outcome.picks_left > len(failures) - failures_before:  # its units were stopped
                    break
        finally:
            picks_left += self.outcome.picks_left + groups_left
            stopped = self.commits.stopped
            self.record.outcome = replace(self.outcome, picks_left=picks_left, stopped=stopped)

    def _group_rounds(self, rounds: _Rounds, where: ScanFilter, failures: Sequence[PickFailure]) -> _Rounds:
        """Yield the rounds of a group, until nothing is left to do or picks failed."""
        commits_before, failures_before = len(self.outcome.snapshots), len(failures)
        try:
            for one in rounds:
                yield one
                if len(failures) > failures_before:
                    break
        finally:
            self._close_group(where, changed=len(self.outcome.snapshots) > commits_before)

    def close(self) -> None:
        """Keep the figures of the files that were planned last, if an error came before their group ran."""
        if len(self.kind.before) or not self.groups:
            self._close_group(self.kind.scope)

    def _close_group(
        self, where: ScanFilter, *, planned: Sequence[PickOutline] = (), changed: bool = False
    ) -> None:
        """Keep the figures of a group, and let go of its files."""
        kind, entries = self.kind, self.kind.before
        keyed, target_size = kind.has_levels, self.target.reading.options.target_file_size
        before = Shape.of(entries, keyed=keyed)
        after = planned_shape(entries, planned, target_size, keyed=keyed) if planned else before
        where = kind.scope if kind.whole_reason else where  # the kind may have chosen more files
        self.groups.append(
            GroupFigures(where=where, before=before, planned=after, picks=len(planned), changed=changed)
        )
        kind.before = ManifestEntries.empty()

    def begin(self, planned: Snapshot | None) -> Snapshot | None:
        """Ask for permission before the first effect, and return the latest snapshot, if it is another than
        was planned from.
        """
        begin, self._on_begin = self._on_begin, None
        if begin is None:
            return None
        begin()
        latest = self.target.stores.snapshots.latest()
        return None if latest is None or (planned is not None and latest.id == planned.id) else latest

    def _start(self) -> Snapshot | None:
        """Return the snapshot to plan from, after all checks."""
        self.kind.check()
        snapshot = self.target.stores.snapshots.latest()
        if snapshot is None:
            return None
        self.commits.look_back(snapshot)
        self.kind.start(snapshot, self.landed)
        return snapshot

    def _rounds(
        self, snapshot: Snapshot | None, where: ScanFilter, prefix: str, executor: Executor
    ) -> _Rounds:
        """Yield what each round of a group does, with the index files of the snapshot that it was planned
        from. A round is planned after the one before was run.
        """
        again: frozenset[Place] | None = None
        planned, self._planned = self._planned, None
        for number in range(self.kind.max_rounds):
            view = Round(
                snapshot=snapshot,
                executor=executor,
                file_prefix=f"{prefix}-{self._rounds_run}",
                where=where,
                again=again,
                lost=frozenset(self.outcome.lost_places),
            )
            plan, snapshot = self._plan_round(view, planned)
            planned = None
            self._rounds_run += 1
            self.picks_planned += len(plan.picks) + len(plan.outdated)
            self.record.outcome = self.outcome.left_out(plan.outdated)
            if not plan.picks:
                break
            logger.info("%s: round %d has %d picks", self.target.name, number, len(plan.picks))
            lost_before = len(self.outcome.lost_places)
            yield plan, self._upkeep(snapshot)
            again = self._again(plan, lost_before)
            if not again or number == self.kind.max_rounds - 1:
                break
            if self.kind.retries_lost:
                self.record.outcome = self.outcome.with_lost(lost_before)
            snapshot = self.target.stores.snapshots.latest()

    def _plan_round(self, view: Round, planned: PlannedRound | None) -> tuple[RoundPlan, Snapshot | None]:
        """Return the plan of a round and its snapshot, which is a newer one if another commit came before
        `begin`.
        """
        planned = planned or self._plan(view)
        if planned.has_picks and (fresh := self.begin(view.snapshot)) is not None:
            view = replace(view, snapshot=fresh)
            planned = self._plan(view)
        return planned.build(), view.snapshot

    def _again(self, plan: RoundPlan, lost_before: int) -> frozenset[Place]:
        """Return the buckets that the next round plans; none when the run is over."""
        if self.outcome.stopped or self.outcome.picks_left:
            return frozenset()
        if self.kind.retries_lost:
            return frozenset(self.outcome.lost_places[lost_before:])
        return frozenset(pick.place for pick in plan.picks)

    def _upkeep(self, snapshot: Snapshot | None) -> VectorUpdates:
        files = () if snapshot is None else self.target.scanner.index_files(snapshot)
        return VectorUpdates.of(self.target.stores.indexes, files, one_per_bucket=self.kind.one_vector_file)
