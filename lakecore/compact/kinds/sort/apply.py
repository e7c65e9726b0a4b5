"""This module clusters a table: it plans from the latest snapshot, sorts, proves, commits, and plans again
what others changed.

Promises: those of `lakecore.compact.engine.driver`; and a run that is started again under its name leaves
alone the partitions that it had put in order. An incremental clustering picks once, as its rule says; what it
makes may be due for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from lakecore.clock import local_ms
from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits
from lakecore.compact.engine.planner import with_known_schema
from lakecore.compact.engine.request import CompactRequest
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place, PlannedRound, Round, RoundPlan, Strategy, UnitTable
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
from lakecore.executor import Executor
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import CLUSTERING_COLUMNS, BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions
from lakecore.scan.filters import ScanFilter
from lakecore.scan.support import check_compactable, check_row_ids
from lakecore.store.external_places import check_external_paths
from lakecore.store.published import names_in
from lakecore.verify.digest.shape import ProofMode

__all__ = ["Clustering"]


class Clustering:
    """The class says what a clustering of one table does (`lakecore.compact.engine.run.Kind`).

    The proof mode of the request does not count: every column is compared. `order`: whole partitions are
    rewritten in it, whatever the strategy; None: those runs that incremental clustering picks. `marks`:
    partitions that are in order, and are left alone. `on_sorted` gets those that are in order after the run.
    """

    name = "sort-compact"
    seed = ""
    max_rounds = 4
    retries_lost = True
    one_vector_file = False
    whole_reason = "a clustering looks at all partitions at once"

    def __init__(
        self,
        target: RewriteTarget,
        request: CompactRequest,
        order: tuple[OrderStrategy, Sequence[str]] | None,
        marks: Marks | None = None,
        on_sorted: Callable[[Marks], None] | None = None,
    ) -> None:
        self._target = target
        self._request = request
        self._order = order
        self._marks = marks
        self._on_sorted = on_sorted
        self._rule = SortRule(OrderStrategy.NONE, ())
        self._policy: ClusterPolicy | None = None
        self._history: frozenset[bytes] = frozenset()
        self._excluded_names: frozenset[str] = frozenset()
        self.before: ManifestEntries = ManifestEntries.empty()
        self.scope = request.where
        self.in_order = 0

    @property
    def has_levels(self) -> bool:
        return self._order is None

    def check(self) -> None:
        """Raise UnsupportedError, InvalidInputError for tables and columns that cannot be sorted."""
        reading = self._target.reading
        if self._order is None:
            self._policy = ClusterPolicy.of(self._target.name, reading.schema, reading.options)
            self._rule = self._policy.rule
        else:
            self._rule = sort_rule(self._target.name, reading.schema, reading.options, *self._order)
        check_compactable(self._target.name, reading.schema, reading.options)
        check_external_paths(self._target.name, reading.schema.options, reading.file_io)

    def start(self, snapshot: Snapshot, landed: EarlierCommits) -> None:
        """Record the files that an earlier run of the same name made: they are in order."""
        self._excluded_names = names_in(self._target.stores.manifests, landed.snapshots)

    def prepare(
        self, run: RewriteRun, snapshot: Snapshot | None, prefixes: tuple[str, ...], executor: Executor
    ) -> Snapshot | None:
        """Return the snapshot unchanged, because nothing must come before the first round."""
        return snapshot

    def plan(self, view: Round) -> PlannedRound:
        """Return what is to be sorted; rows are sampled only when the plan is built."""
        parallelism = view.executor.parallelism
        picks, entries = self._picks(view.snapshot, view.again, parallelism)
        build = partial(self._build, picks, entries, view)
        return PlannedRound(bool(picks), build, parallelism=parallelism)

    def finish(self, run: RewriteRun, names: AttemptFiles) -> None:
        """Tell which partitions are in order now."""
        latest = self._target.stores.snapshots.latest()
        if self._policy is not None or latest is None or not (run.outcome.snapshots or self._excluded_names):
            return
        live = self._target.scanner.live_entries(latest, self._request.where)
        marks = marks_of(live, names.shared[0], self._order_name)
        if marks and self._on_sorted is not None:
            self._on_sorted(marks)

    def _build(self, picks: Sequence[SortPick], entries: ManifestEntries, view: Round) -> RoundPlan:
        table = self._unit_table(entries)
        picks_known, outdated = with_known_schema(picks, table.schema)
        check_row_ids(
            self._target.name, self._target.reading.options, (f for p in picks_known for f in p.files)
        )
        maker = UnitMaker(table=table, rule=self._rule, executor=view.executor, prefix=view.file_prefix)
        no_deletes = ManifestEntries.empty()  # files without a key: no unit drops deletes
        return RoundPlan(tuple(maker.work_picks(picks_known)), run_unit, table, outdated, no_deletes)

    def _picks(
        self, snapshot: Snapshot | None, lost: frozenset[Place] | None, parallelism: int
    ) -> tuple[tuple[SortPick, ...], ManifestEntries]:
        """Return what to sort, and the live files it was chosen from."""
        if snapshot is None:
            return (), ManifestEntries.empty()
        entries, deletions = self._live(snapshot, lost), dict(self._target.scanner.deletions(snapshot))
        reading, policy = self._target.reading, self._policy
        cuts = CutPolicy(parallelism=parallelism, target_file_size=reading.options.target_file_size)
        excluded = self._excluded_names if lost is None else ()
        if policy is None:
            picks = plan_sorts(self._without_marked(entries, deletions), deletions, cuts, excluded)
        else:
            request = ClusterRequest(
                policy=policy,
                full=self._request.strategy is Strategy.FULL,
                columns_of=self._columns_of,
                cuts=cuts,
                history=self._history,
                bucketed=self._bucketed,
            )
            picks = plan_clusters(entries, deletions, request, excluded)
        return tuple(pick for pick in picks if lost is None or pick.place in lost), entries

    def _live(self, snapshot: Snapshot, lost: frozenset[Place] | None) -> ManifestEntries:
        """Return the files to choose from, with those of partitions that were idle long enough."""
        scanner, where = self._target.scanner, self._request.where
        if lost is not None:
            return scanner.live_entries(snapshot, ScanFilter(serialized=frozenset(p.partition for p in lost)))
        entries = scanner.live_entries(snapshot, where)
        policy = self._policy
        if policy is not None and policy.idle_ms is not None and where.partitions and not self._bucketed:
            requested_partitions = frozenset(
                entries.partitions[code] for code in np.unique(entries.partition).tolist()
            )
            now = self._target.clock.now_ms()
            self._history = idle_places(
                scanner.live_entries(snapshot), requested_partitions, policy, local_ms(now)
            )
            if self._history:
                self.scope = ScanFilter(serialized=requested_partitions | self._history)
                entries = scanner.live_entries(snapshot, self.scope)
        self.before = entries
        return entries

    @property
    def _bucketed(self) -> bool:
        return self._target.reading.options.bucket_mode is not BucketMode.BUCKET_UNAWARE

    def _without_marked(self, entries: ManifestEntries, deletions: Deletions) -> ManifestEntries:
        """Return the entries without the partitions that are in order already."""
        if not self._marks:
            return entries
        deleted = {partition for partition, _, _ in deletions}
        marks = marked_partitions(entries, self._marks, self._order_name, deleted)
        codes = [code for code, partition in enumerate(entries.partitions) if partition in marks]
        self.in_order = len(marks)
        return entries.select(~np.isin(entries.partition, codes))

    @property
    def _order_name(self) -> str:
        return order_name(self._rule, self._target.reading.schema)

    def _columns_of(self, schema_id: int) -> tuple[str, ...]:
        """Return the clustering columns of a schema; none of one that the job does not know."""
        reading = self._target.reading
        is_readable = schema_id <= reading.schema.id
        return CLUSTERING_COLUMNS.read(reading.file_schema(schema_id).options) if is_readable else ()

    def _unit_table(self, entries: ManifestEntries) -> UnitTable:
        table = self._target.unit_table(entries, ProofMode.FULL)
        return replace(table, shape=replace(table.shape, positional=False, sorted_by=str(self._rule)))
