"""Compacting a table: plan from the latest snapshot, do it, and look again until there is nothing to do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from lakecore.compact.engine.attempt_files import EarlierCommits, RunFiles, earlier_commits
from lakecore.compact.engine.deletion_vectors import VectorUpkeep
from lakecore.compact.engine.driver import MAX_COMMITS, Driver, RunSettings
from lakecore.compact.engine.outcome import Outcome, Progress
from lakecore.compact.engine.refusal import PickFailure, duplicate_commit, failure_of
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Strategy
from lakecore.compact.kinds.postpone.apply import Folding, fold_picks
from lakecore.compact.planning import Planner, RoundPlan
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError, ProofError
from lakecore.executor import Executor, SerialExecutor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.scan.filters import ScanFilter
from lakecore.scan.support import check_compactable, check_index_files
from lakecore.store.indexes import IndexStore
from lakecore.verify.proof.pick_proof import proof_properties
from lakecore.verify.proof.second_decoder import SecondDecoders
from lakecore.verify.proof.snapshot_check import SnapshotCheck

__all__ = ["CompactRun"]

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 16
_CLUSTERED_ROUNDS = 2
_FOLD_TRIES = 3


class CompactRun:
    """One run over one table, with what it saw and did, also after an exception.

    `on_begin` is called once, before anything is written; what it raises ends the run.
    `landed`: what an earlier run of the same name had committed.
    `before`: live files at the start, of `scope`. `picks_planned`: 0 when there was nothing to do.
    """

    def __init__(
        self,
        target: RewriteTarget,
        request: CompactRequest,
        on_progress: Callable[[Progress], None] | None,
        on_begin: Callable[[], None] | None = None,
    ) -> None:
        self._target = target
        self._request = request
        self._on_progress = on_progress
        self._on_begin = on_begin
        self.outcome = Outcome()
        self.landed = EarlierCommits()
        self.before: ManifestEntries = ManifestEntries.empty()
        self.picks_planned = 0
        self.scope = request.where
        self._commits = 0
        self._folded: frozenset[str] = frozenset()
        self._refused: dict[bytes, PickFailure] = {}
        self._seed = request.proof_seed or target.clock.fresh_id()
        self._decoders = SecondDecoders(target.reading.file_io, self._seed)

    def plan(self) -> RoundPlan:
        """What the first round would do; nothing is written."""
        plan = self._plan(self._start(), "none", self._request.where, SerialExecutor())
        if self._target.reading.options.bucket_mode is BucketMode.POSTPONE:
            plan = replace(plan, picks=(*fold_picks(plan.table, self.before), *plan.picks))
        self.picks_planned = len(plan.picks)
        return plan

    def run(self, executor: Executor) -> None:
        """Compact. Raises UnsupportedError before anything is touched; else what units and commits raise."""
        request = self._request
        snapshot = self._start()
        options = self._target.reading.options
        names = RunFiles.of(
            (options.data_file_prefix, options.changelog_file_prefix),
            (self._target.reading.paths.root, request.commit_user, request.identifier),
            self._target.clock.fresh_id(),
        )
        self._rounds(self._fold(snapshot, names.own, executor), names, executor)
        if snapshot is not None and not self.outcome.snapshots:
            self._target.scanner.snapshots.catch_up_latest(snapshot.id)
        if self.outcome.snapshots and request.named:
            names.remove_older(self._target.scanner.manifests, self.outcome.directories, self.landed)
        if self._refused:
            left = self.outcome.picks_left + len(self._refused)
            self.outcome = replace(self.outcome, picks_left=left)
            self.picks_planned += len(self._refused)
            raise failure_of(self._target.name, list(self._refused.values()))

    def _fold(
        self, snapshot: Snapshot | None, prefixes: tuple[str, ...], executor: Executor
    ) -> Snapshot | None:
        """Rows without a bucket get one first. Where others did the same meanwhile, what is left."""
        if self._target.reading.options.bucket_mode is not BucketMode.POSTPONE:
            return snapshot
        for attempt in range(_FOLD_TRIES):
            try:
                if snapshot is None or not self._fold_once(snapshot, prefixes, executor):
                    return snapshot
                break
            except CommitConflictError as err:
                if attempt == _FOLD_TRIES - 1:
                    raise
                logger.info(
                    "%s: the postponed rows are assigned to buckets again: %s", self._target.name, err
                )
                snapshot = self._target.scanner.snapshots.latest()
        return self._target.scanner.snapshots.latest()

    def _fold_once(self, snapshot: Snapshot, prefixes: tuple[str, ...], executor: Executor) -> bool:
        """False when there was nothing to do, or the executor was cancelled."""
        target, request = self._target, self._request
        live = target.scanner.live_entries(snapshot, request.where)
        self.before = live
        if (live.bucket < 0).any() and (fresh := self._begin(snapshot)) is not None:
            return self._fold_once(fresh, prefixes, executor)
        table = target.unit_table(live, request.proof, self._seed, whole=True)
        folding = Folding(table, live, prefixes, executor, self._decoders, self._refused.keys())
        if not folding.folds:
            return False
        try:
            folded = folding.run()
        except ProofError:
            self._refused |= folding.refused
            if not folding.refused:
                raise
            return self._fold_once(snapshot, prefixes, executor)  # the other partitions
        self.picks_planned += len(folding.folds)
        if folded is None:
            self.outcome = replace(self.outcome, picks_left=len(folding.folds))
            return False
        try:
            result = target.committer.commit(
                folded.messages,
                commit_user=request.commit_user,
                identifier=self._next_identifier(),
                properties=proof_properties(pick.proof for pick in folded.picks if pick.proof is not None),
                examine=SnapshotCheck(folded.messages),
            )
        except CommitUncertainError:
            raise
        except LakeError:  # an interruption may come after landing: it removes nothing
            folding.abort()
            raise
        if result.duplicate:
            folding.abort()
            raise duplicate_commit(request.commit_user, self._next_identifier(), result.snapshot_ids[-1])
        self._commits += 1
        self._folded = frozenset(file.file_name for pick in folded.picks for file in pick.files)
        folding.clean(folded)
        committed = self.outcome.committed(folded.picks, result.snapshot_ids, result.notes)
        directories = committed.directories | folded.directories
        self.outcome = replace(committed, directories=directories, decoded=self._decoders.report())
        return True

    def _next_identifier(self) -> int:
        """Of this run's next commit."""
        first = self.landed.next_identifier(self._request.identifier)
        return first if first == BATCH_IDENTIFIER else first + self._commits

    def _rounds(self, snapshot: Snapshot | None, names: RunFiles, executor: Executor) -> None:
        driver: Driver | None = None
        where = self._request.where
        for number in range(self._most_rounds):
            prefix = f"{names.own[0]}-{number}"
            plan = self._plan(snapshot, prefix, where, executor)
            if plan.picks and (fresh := self._begin(snapshot)) is not None:
                snapshot = fresh
                plan = self._plan(snapshot, prefix, where, executor)
            self.picks_planned += len(plan.picks) + len(plan.outdated)
            self.outcome = self.outcome.left_out(plan.outdated)
            if not plan.picks:
                break
            logger.info("%s: round %d compacts %d picks", self._target.name, number, len(plan.picks))
            driver = driver or self._driver(plan, names)
            driver.decoders = self._decoders
            driver.outcome = self.outcome
            try:
                driver.run(plan.picks, executor, plan.function, self._upkeep(snapshot), plan.live)
            finally:
                self.outcome = driver.outcome
            if self.outcome.stopped or self.outcome.picks_left:
                break
            touched = frozenset(pick.place.partition for pick in plan.picks)
            where = replace(self._request.where, serialized=touched)
            snapshot = self._target.scanner.snapshots.latest()

    def _begin(self, planned: Snapshot | None) -> Snapshot | None:
        """Before the first effect: ask leave. The latest snapshot, if it is another than was planned from."""
        begin, self._on_begin = self._on_begin, None
        if begin is None:
            return None
        begin()
        latest = self._target.scanner.snapshots.latest()
        return None if latest is None or (planned is not None and latest.id == planned.id) else latest

    @property
    def _most_rounds(self) -> int:
        """After a full compaction a second look would only see what others wrote meanwhile.

        Append tables need several. Files in another order than the key's are merged after level 0.
        """
        if self._target.reading.options.pk_clustering_override:
            return _CLUSTERED_ROUNDS
        full = self._request.strategy is Strategy.FULL and self._target.reading.keyed
        return 1 if full else _MAX_ROUNDS

    def _start(self) -> Snapshot | None:
        """The snapshot to plan from, after all checks."""
        reading = self._target.reading
        check_compactable(self._target.name, reading.schema, reading.options)
        snapshot = self._target.scanner.snapshots.latest()
        if snapshot is None:
            return None
        if reading.keyed and not reading.options.deletion_vectors:
            check_index_files(self._target.name, snapshot.id, self._target.scanner.index_files(snapshot))
        request = self._request
        if request.named:
            identifiers = range(request.identifier, request.identifier + MAX_COMMITS)
            self.landed = earlier_commits(
                self._target.scanner.snapshots, snapshot, request.commit_user, identifiers
            )
        return snapshot

    def _plan(self, snapshot: Snapshot | None, prefix: str, where: ScanFilter, engine: Executor) -> RoundPlan:
        entries = ManifestEntries.empty()
        if snapshot is not None:
            entries = self._target.scanner.live_entries(snapshot, where)
        if where is self._request.where and not self._commits:
            self.before = entries
        deletions = {} if snapshot is None else self._target.scanner.deletions(snapshot)
        return self._planner(engine).plan(entries, prefix, frozenset(self.outcome.lost_places), deletions)

    def _planner(self, engine: Executor) -> Planner:
        request = self._request
        return Planner(
            target=self._target,
            strategy=request.strategy,
            proof=request.proof,
            engine=engine,
            seed=self._seed,
        )

    def _upkeep(self, snapshot: Snapshot | None) -> VectorUpkeep:
        scanner, reading = self._target.scanner, self._target.reading
        store = IndexStore(reading.file_io, reading.paths, reading.schema, self._target.clock)
        files = () if snapshot is None else scanner.index_files(snapshot)
        unaware = reading.options.bucket_mode is BucketMode.BUCKET_UNAWARE
        return VectorUpkeep.of(store, files, one_per_bucket=not unaware)

    def _driver(self, plan: RoundPlan, names: RunFiles) -> Driver:
        request = self._request
        settings = RunSettings(
            table=self._target.name,
            commit_user=request.commit_user,
            identifier=self._next_identifier(),
            file_prefixes=names.own,
            until_ms=request.until_ms,
            committed=self._folded,
        )
        target = self._target
        return Driver(
            target.reading, plan.table.shape, target.committer, target.clock, settings, self._on_progress
        )
