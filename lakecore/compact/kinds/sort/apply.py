"""Clustering a table: plan from the latest snapshot, sort, prove, commit; plan again what others touched.

Promises: those of `lakecore.compact.engine.driver`; and a run that is started again under its name leaves
alone the partitions that it had put in order. An incremental clustering picks once, as its rule says; what it
makes may be due for the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakecore.clock import local_ms
from lakecore.compact.engine.attempt_files import EarlierCommits, RunFiles, earlier_commits, names_in
from lakecore.compact.engine.deletion_vectors import VectorUpkeep
from lakecore.compact.engine.driver import MAX_COMMITS, Driver, RunSettings
from lakecore.compact.engine.naming import place_name
from lakecore.compact.engine.outcome import Outcome, Progress
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place, Strategy, UnitTable, WorkPick
from lakecore.compact.kinds.sort.incremental import (
    ClusterPolicy,
    ClusterRequest,
    idle_places,
    plan_clusters,
)
from lakecore.compact.kinds.sort.marks import Marks, marked_partitions, marks_of, order_name
from lakecore.compact.kinds.sort.plan import CutPolicy, SortPick, plan_sorts, sort_rule
from lakecore.compact.kinds.sort.run import run_unit
from lakecore.compact.kinds.sort.units import UnitMaker
from lakecore.executor import Executor, SerialExecutor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import CLUSTERING_COLUMNS, BucketMode
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions
from lakecore.scan.filters import ScanFilter
from lakecore.scan.support import check_compactable, check_row_ids
from lakecore.store.indexes import IndexStore
from lakecore.verify.digest.shape import ProofMode

__all__ = ["ClusterPlan", "ClusterRun"]

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Picks planned from one snapshot. `outdated`: partitions, by name, with files of a newer schema."""

    picks: tuple[WorkPick, ...]
    table: UnitTable
    outdated: dict[Place, str]


class ClusterRun:
    """One run over one table, with what it saw and did, also after an exception.

    `landed`: what an earlier run of the same name had committed. `before`: live files of `scope` at first.
    `picks_planned`: 0 when there was nothing to do. The proof mode of the request does not count: every
    column is compared. `order`: whole partitions are rewritten in it, whatever the strategy; None: those runs
    that incremental clustering picks. `marks`: partitions that are in order, and are left alone; `in_order`:
    how many of them; `new_marks`: those that are in order after this run. `on_begin` is called once, before
    anything is written; what it raises ends the run.
    """

    def __init__(
        self,
        target: RewriteTarget,
        request: CompactRequest,
        order: tuple[OrderStrategy, Sequence[str]] | None,
        on_progress: Callable[[Progress], None] | None,
        on_begin: Callable[[], None] | None = None,
        marks: Marks | None = None,
    ) -> None:
        self._target = target
        self._request = request
        self._order = order
        self._on_progress = on_progress
        self._on_begin = on_begin
        self._rule = SortRule(OrderStrategy.NONE, ())
        self._policy: ClusterPolicy | None = None
        self._history: frozenset[bytes] = frozenset()
        self._done: frozenset[str] = frozenset()
        self.outcome = Outcome()
        self.landed = EarlierCommits()
        self.before: ManifestEntries = ManifestEntries.empty()
        self.picks_planned = 0
        self.scope = request.where
        self.in_order = 0
        self.new_marks: Marks = {}
        self._marks = marks

    def plan(self) -> ClusterPlan:
        """What the first round would do; nothing is written, and no row is read."""
        plan = self._plan(self._start(), None, SerialExecutor(), "none")
        self.picks_planned = len(plan.picks)
        return plan

    def run(self, executor: Executor) -> None:
        """Put the rows in order. Raises UnsupportedError, InvalidInputError before anything is touched; else
        what units and commits raise.
        """
        snapshot, request = self._start(), self._request
        names = RunFiles.of(
            (self._target.reading.options.data_file_prefix,),
            (self._target.reading.paths.root, request.commit_user, request.identifier),
            self._target.clock.fresh_id(),
        )
        self._rounds(snapshot, names, executor)
        if snapshot is not None and not self.outcome.snapshots:
            self._target.scanner.snapshots.catch_up_latest(snapshot.id)
        if self.outcome.snapshots and request.named:
            names.remove_older(self._target.scanner.manifests, self.outcome.directories, self.landed)
        latest = self._target.scanner.snapshots.latest()
        if self._policy is None and latest is not None and (self.outcome.snapshots or self._done):
            live = self._target.scanner.live_entries(latest, request.where)
            self.new_marks = marks_of(live, names.shared[0], self._order_name)

    def _start(self) -> Snapshot | None:
        """The snapshot to plan from, after all checks."""
        reading, request = self._target.reading, self._request
        if self._order is None:
            self._policy = ClusterPolicy.of(self._target.name, reading.schema, reading.options)
            self._rule = self._policy.rule
        else:
            self._rule = sort_rule(self._target.name, reading.schema, reading.options, *self._order)
        check_compactable(self._target.name, reading.schema, reading.options)
        snapshot = self._target.scanner.snapshots.latest()
        if snapshot is not None and request.named:
            identifiers = range(request.identifier, request.identifier + MAX_COMMITS)
            self.landed = earlier_commits(
                self._target.scanner.snapshots, snapshot, request.commit_user, identifiers
            )
            self._done = names_in(self._target.scanner.manifests, self.landed.snapshots)
        return snapshot

    def _rounds(self, snapshot: Snapshot | None, names: RunFiles, executor: Executor) -> None:
        driver: Driver | None = None
        lost: frozenset[Place] | None = None
        if self._on_begin is not None and self._picks(snapshot, lost, executor.parallelism)[0]:
            self._on_begin()
            snapshot = self._target.scanner.snapshots.latest()
        for number in range(_MAX_ROUNDS):
            plan = self._plan(snapshot, lost, executor, f"{names.own[0]}-{number}")
            self.picks_planned += len(plan.picks) + len(plan.outdated)
            self.outcome = self.outcome.left_out(plan.outdated)
            if not plan.picks:
                break
            logger.info(
                "%s: sorting (%s): %d picks are compacted", self._target.name, self._rule, len(plan.picks)
            )
            driver = driver or self._driver(plan, names)
            driver.outcome = self.outcome
            before = len(self.outcome.lost_places)
            try:
                live = ManifestEntries.empty()  # files without a key: no unit drops deletes
                driver.run(plan.picks, executor, run_unit, self._upkeep(snapshot), live)
            finally:
                self.outcome = driver.outcome
            again = self.outcome.lost_places[before:]
            if not again or self.outcome.stopped or self.outcome.picks_left or number == _MAX_ROUNDS - 1:
                break
            self.outcome = replace(
                self.outcome,
                dropped=self.outcome.dropped[:before],
                lost_places=self.outcome.lost_places[:before],
            )
            lost = frozenset(again)
            snapshot = self._target.scanner.snapshots.latest()

    def _plan(
        self, snapshot: Snapshot | None, lost: frozenset[Place] | None, executor: Executor, prefix: str
    ) -> ClusterPlan:
        """`lost`: buckets that another commit touched; None in the first round."""
        parallelism = 1 if prefix == "none" else executor.parallelism
        picks, entries = self._picks(snapshot, lost, parallelism)
        table = self._unit_table(entries)
        known = [pick for pick in picks if max(file.schema_id for file in pick.files) <= table.schema.id]
        outdated = {p.place: place_name(p.place, table.schema) for p in picks if p not in known}
        check_row_ids(self._target.name, self._target.reading.options, (f for p in known for f in p.files))
        maker = UnitMaker(table=table, rule=self._rule, executor=executor, prefix=prefix)
        return ClusterPlan(tuple(maker.work_picks(known)), table, outdated)

    def _picks(
        self, snapshot: Snapshot | None, lost: frozenset[Place] | None, parallelism: int
    ) -> tuple[tuple[SortPick, ...], ManifestEntries]:
        """What to put in order, and the live files it was chosen from."""
        if snapshot is None:
            return (), ManifestEntries.empty()
        entries, deletions = self._live(snapshot, lost), dict(self._target.scanner.deletions(snapshot))
        reading, policy = self._target.reading, self._policy
        cuts = CutPolicy(parallelism=parallelism, target_file_size=reading.options.target_file_size)
        done = self._done if lost is None else ()
        if policy is None:
            picks = plan_sorts(self._unmarked(entries, deletions), deletions, cuts, done)
        else:
            request = ClusterRequest(
                policy=policy,
                full=self._request.strategy is Strategy.FULL,
                columns_of=self._columns_of,
                cuts=cuts,
                history=self._history,
                bucketed=self._bucketed,
            )
            picks = plan_clusters(entries, deletions, request, done)
        return tuple(pick for pick in picks if lost is None or pick.place in lost), entries

    def _live(self, snapshot: Snapshot, lost: frozenset[Place] | None) -> ManifestEntries:
        """The files to choose from; with those of partitions that were idle long enough."""
        scanner, where = self._target.scanner, self._request.where
        if lost is not None:
            return scanner.live_entries(snapshot, ScanFilter(serialized=frozenset(p.partition for p in lost)))
        entries = scanner.live_entries(snapshot, where)
        policy = self._policy
        if policy is not None and policy.idle_ms is not None and where.partitions and not self._bucketed:
            asked = frozenset(entries.partitions[code] for code in np.unique(entries.partition).tolist())
            now = self._target.clock.now_ms()
            self._history = idle_places(scanner.live_entries(snapshot), asked, policy, local_ms(now))
            if self._history:
                self.scope = ScanFilter(serialized=asked | self._history)
                entries = scanner.live_entries(snapshot, self.scope)
        self.before = entries
        return entries

    @property
    def _bucketed(self) -> bool:
        return self._target.reading.options.bucket_mode is not BucketMode.BUCKET_UNAWARE

    def _unmarked(self, entries: ManifestEntries, deletions: Deletions) -> ManifestEntries:
        """Without the partitions that are in order already."""
        if not self._marks:
            return entries
        deleted = {partition for partition, _, _ in deletions}
        found = marked_partitions(entries, self._marks, self._order_name, deleted)
        codes = [code for code, partition in enumerate(entries.partitions) if partition in found]
        self.in_order = len(found)
        return entries.select(~np.isin(entries.partition, codes))

    @property
    def _order_name(self) -> str:
        return order_name(self._rule, self._target.reading.schema)

    def _columns_of(self, schema_id: int) -> tuple[str, ...]:
        """Clustering columns of a schema; none of one that the job does not know."""
        reading = self._target.reading
        known = schema_id <= reading.schema.id
        return CLUSTERING_COLUMNS.read(reading.file_schema(schema_id).options) if known else ()

    def _unit_table(self, entries: ManifestEntries) -> UnitTable:
        table = self._target.unit_table(entries, ProofMode.FULL)
        return replace(table, shape=replace(table.shape, positional=False, sorted_by=str(self._rule)))

    def _upkeep(self, snapshot: Snapshot | None) -> VectorUpkeep:
        scanner, reading = self._target.scanner, self._target.reading
        store = IndexStore(reading.file_io, reading.paths, reading.schema, self._target.clock)
        files = () if snapshot is None else scanner.index_files(snapshot)
        return VectorUpkeep.of(store, files, one_per_bucket=False)

    def _driver(self, plan: ClusterPlan, names: RunFiles) -> Driver:
        request, target = self._request, self._target
        first = self.landed.next_identifier(request.identifier) if request.named else request.identifier
        settings = RunSettings(
            table=self._target.name,
            commit_user=request.commit_user,
            identifier=request.identifier if request.identifier == BATCH_IDENTIFIER else first,
            file_prefixes=names.own,
            until_ms=request.until_ms,
        )
        shape = plan.table.shape
        return Driver(target.reading, shape, target.committer, target.clock, settings, self._on_progress)
