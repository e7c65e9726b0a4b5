"""This module has one run of a kind of rewriting over one table: plan, run units, prove, commit, and plan
again.

It keeps the promises of `lakecore.compact.engine.driver`. A run that is started again under its name goes on
where the first stopped: its commits are numbered, and files that the first did not commit are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits
from lakecore.compact.engine.deletion_vectors import VectorUpdates
from lakecore.compact.engine.driver import Driver, RunSettings
from lakecore.compact.engine.outcome import Outcome, Progress, RunRecord
from lakecore.compact.engine.refusal import PickFailure, failure_of
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.run_commits import RunCommits
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import PickOutline, Place, PlannedRound, Round, RoundPlan, outlines_of
from lakecore.data_class import dataclass
from lakecore.executor import Executor, SerialExecutor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.filters import ScanFilter
from lakecore.verify.proof.second_decoder import SecondDecoders

__all__ = ["Kind", "RewriteRun"]

logger = logging.getLogger(__name__)


class Kind(Protocol):
    """One way to rewrite files of a table: it decides what is done, and the run does it."""

    before: ManifestEntries
    """These are the live files of `scope` at the start."""

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
    """An attempt begins with the snapshot that it saw first, the names of its files, and perhaps the plan of
    its first round.
    """

    snapshot: Snapshot | None
    names: AttemptFiles
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
        self._on_progress = on_progress
        self._on_begin = on_begin
        self.decoders = SecondDecoders(target.reading.file_io, kind.seed)
        self.commits = RunCommits(target, request.run)
        self.record = RunRecord()
        self.picks_planned = 0
        """0 when there was nothing to do."""
        self._attempt: _Attempt | None = None
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
        plan = self.kind.plan(view).build()
        self.picks_planned = len(plan.picks)
        return plan

    def outline(self) -> tuple[PickOutline, ...]:
        """Return what the first round would do, in numbers: `plan` without units."""
        view = Round(snapshot=self._start(), executor=SerialExecutor(), file_prefix="none", dry=True)
        planned = self.kind.plan(view)
        outlines = planned.outlines
        if outlines is None:
            outlines = outlines_of(planned.build().picks)
        self.picks_planned = len(outlines)
        return outlines

    def plan_first_round(self, executor: Executor) -> tuple[PickOutline, ...]:
        """Return what the first round would do, as `outline` does, and keep the plan: `run` goes on with it.

        `executor` is that of the units. It may choose its engine after this.
        """
        attempt = self._open_attempt()
        view = Round(
            snapshot=attempt.snapshot,
            executor=executor,
            file_prefix=f"{attempt.names.own[0]}-0",
            dry=True,
        )
        planned = self.kind.plan(view)
        if planned.outlines is None:  # to build it may sample rows, so it is built once
            round_plan = planned.build()
            outlines = outlines_of(round_plan.picks)
            planned = replace(planned, build=lambda: round_plan, outlines=outlines)
        self._attempt = replace(attempt, planned=planned)
        return planned.outlines or ()

    def _open_attempt(self) -> _Attempt:
        """Look at the table, after all checks, and name the files of this attempt."""
        snapshot = self._start()
        options = self.target.reading.options
        names = self.commits.names((options.data_file_prefix, options.changelog_file_prefix))
        return _Attempt(snapshot, names)

    def run(self, executor: Executor) -> None:
        """Do it. Raises UnsupportedError, InvalidInputError before anything is touched; else what units and
        commits raise.
        """
        request, target = self.request, self.target
        attempt, self._attempt = self._attempt or self._open_attempt(), None
        snapshot, names = attempt.snapshot, attempt.names
        driver = Driver(
            self.commits, self.record, self.decoders, RunSettings(is_own=names.has), self._on_progress
        )
        prepared = self.kind.prepare(self, snapshot, names.own, executor)
        planned = attempt.plan_for(prepared, executor)
        del attempt  # a plan may be large
        for plan, upkeep in self._rounds(prepared, names.own[0], executor, planned):
            driver.run(plan, executor, upkeep)
        if snapshot is not None and not self.outcome.snapshots:
            target.stores.snapshots.catch_up_latest(snapshot.id)
        if self.outcome.snapshots and request.run.has_name:
            directories = self.outcome.directories
            names.remove_older(target.stores.manifests, directories, self.landed, self.commits.published)
        self.kind.finish(self, names)
        if self.refused:
            rest = self.outcome.picks_left + len(self.refused)
            self.record.outcome = replace(self.outcome, picks_left=rest)
            self.picks_planned += len(self.refused)
            raise failure_of(target.name, list(self.refused.values()))

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
        self, snapshot: Snapshot | None, prefix: str, executor: Executor, planned: PlannedRound | None
    ) -> Iterator[tuple[RoundPlan, VectorUpdates]]:
        """Yield what each round does, with the index files of the snapshot that it was planned from. A round
        is planned after the one before was run. `planned` is the first one, if it is planned already.
        """
        again: frozenset[Place] | None = None
        for number in range(self.kind.max_rounds):
            view = Round(
                snapshot=snapshot,
                executor=executor,
                file_prefix=f"{prefix}-{number}",
                again=again,
                lost=frozenset(self.outcome.lost_places),
            )
            plan, snapshot = self._plan_round(view, planned)
            planned = None
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
        planned = planned or self.kind.plan(view)
        if planned.has_picks and (fresh := self.begin(view.snapshot)) is not None:
            view = replace(view, snapshot=fresh)
            planned = self.kind.plan(view)
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
