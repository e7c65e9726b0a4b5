"""Clustering a table: plan from the latest snapshot, sort, prove, commit; plan again what others touched.

Promises: those of `lakecore.compact.driver`; and a run that is started again under its name leaves alone the
partitions that it had put in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakecore.compact.cluster.plan import (
    Bounds,
    CutPolicy,
    SortPick,
    plan_sorts,
    quantiles,
    sample_rows,
    sort_rule,
)
from lakecore.compact.cluster.run import SampleTask, SortUnit, run_unit, sample
from lakecore.compact.driver import MAX_COMMITS, Driver, RunSettings
from lakecore.compact.identity import EarlierCommits, RunFiles, earlier_commits, names_in
from lakecore.compact.naming import place_name
from lakecore.compact.outcome import Outcome, Progress
from lakecore.compact.planning import CompactTarget, Planner
from lakecore.compact.rounds import CompactRequest
from lakecore.compact.vectors import VectorUpkeep, counted
from lakecore.compact.work import Place, UnitTable, WorkPick
from lakecore.executor import Executor, SerialExecutor
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.support import check_compactable
from lakecore.store.indexes import IndexStore
from lakecore.verify.shape import ProofMode

__all__ = ["ClusterPlan", "ClusterRun"]

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 4
_SAMPLED_FILES = 32


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Picks planned from one snapshot. `outdated`: partitions, by name, with files of a newer schema."""

    picks: tuple[WorkPick, ...]
    table: UnitTable
    outdated: dict[Place, str]


class ClusterRun:
    """One run over one table, with what it saw and did, also after an exception.

    `landed`: what an earlier run of the same name had committed. `before`: live files at the start.
    `picks_planned`: 0 when there was nothing to do. Strategy and proof mode of the request do not count:
    whole partitions are rewritten, and every column is compared.
    """

    def __init__(
        self,
        target: CompactTarget,
        request: CompactRequest,
        order: tuple[OrderStrategy, Sequence[str]],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._target = target
        self._request = request
        self._order = order
        self._on_progress = on_progress
        self._rule = SortRule(OrderStrategy.NONE, ())
        self._done: frozenset[str] = frozenset()
        self.outcome = Outcome()
        self.landed = EarlierCommits()
        self.before: ManifestEntries = ManifestEntries.empty()
        self.picks_planned = 0

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
        if self.outcome.snapshots and request.named:
            names.remove_older(self._target.scanner.manifests, self.outcome.directories, self.landed)

    def _start(self) -> Snapshot | None:
        """The snapshot to plan from, after all checks."""
        reading, request = self._target.reading, self._request
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
        lost: frozenset[bytes] | None = None
        for number in range(_MAX_ROUNDS):
            plan = self._plan(snapshot, lost, executor, f"{names.own[0]}-{number}")
            self.picks_planned += len(plan.picks) + len(plan.outdated)
            self.outcome = self.outcome.left_out(plan.outdated)
            if not plan.picks:
                break
            logger.info("%s: %s: %d partitions", self._target.name, self._rule, len(plan.picks))
            driver = driver or self._driver(plan, names)
            driver.outcome = self.outcome
            before = len(self.outcome.lost_places)
            try:
                driver.run(plan.picks, executor, run_unit, self._upkeep(snapshot))
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
            lost = frozenset(place.partition for place in again)
            snapshot = self._target.scanner.snapshots.latest()

    def _plan(
        self, snapshot: Snapshot | None, lost: frozenset[bytes] | None, executor: Executor, prefix: str
    ) -> ClusterPlan:
        """`lost`: partitions that another commit touched; None in the first round."""
        where = self._request.where if lost is None else replace(self._request.where, serialized=lost)
        entries, deletions = ManifestEntries.empty(), {}
        if snapshot is not None:
            entries = self._target.scanner.live_entries(snapshot, where)
            deletions = dict(self._target.scanner.deletions(snapshot))
        if lost is None:
            self.before = entries
        table = self._unit_table(entries, executor)
        policy = CutPolicy(
            parallelism=1 if prefix == "none" else executor.parallelism,
            target_file_size=table.reading.options.target_file_size,
        )
        picks = plan_sorts(entries, deletions, policy, self._done if lost is None else ())
        schema = table.schema
        known = [pick for pick in picks if max(file.schema_id for file in pick.files) <= schema.id]
        outdated = {p.place: place_name(p.place, schema) for p in picks if p not in known}
        return ClusterPlan(tuple(self._work_picks(known, table, executor, prefix)), table, outdated)

    def _unit_table(self, entries: ManifestEntries, executor: Executor) -> UnitTable:
        request = self._request
        planner = Planner(
            target=self._target, strategy=request.strategy, proof=ProofMode.FULL, engine=executor
        )
        table = planner.unit_table(entries)
        return replace(table, shape=replace(table.shape, positional=False, sorted_by=str(self._rule)))

    def _work_picks(
        self, picks: Sequence[SortPick], table: UnitTable, executor: Executor, prefix: str
    ) -> Iterator[WorkPick]:
        bounds = self._bounds(picks, table, executor)
        for number, (pick, own) in enumerate(zip(picks, bounds, strict=True)):
            yield self._work_pick(pick, own, table, f"{prefix}-{number}", overlap=executor.name == "local")

    def _bounds(self, picks: Sequence[SortPick], table: UnitTable, executor: Executor) -> list[Bounds]:
        """Of each pick. One whose sample fails is not cut: its unit says what is wrong."""
        cut = [number for number, pick in enumerate(picks) if pick.cuts > 1]
        tasks = [self._sample_task(picks[number], table) for number in cut]
        found: list[Bounds] = [() for _ in picks]
        for number, rows in zip(cut, executor.run(sample, tasks) if tasks else (), strict=False):
            if isinstance(rows, BaseException):
                logger.warning("%s: no bounds: %s", place_name(picks[number].place, table.schema), rows)
            else:
                found[number] = quantiles(rows, picks[number].cuts)
        return found

    def _sample_task(self, pick: SortPick, table: UnitTable) -> SampleTask:
        step = -(-len(pick.files) // _SAMPLED_FILES)
        return SampleTask(
            table=table.in_partition(pick.place.partition),
            rule=self._rule,
            bucket_dir=table.reading.bucket_dir(pick.place.partition, pick.place.bucket),
            files=pick.files[::step],
            rows=sample_rows(table.schema.options, pick.cuts),
        )

    def _work_pick(
        self, pick: SortPick, bounds: Bounds, table: UnitTable, prefix: str, *, overlap: bool
    ) -> WorkPick:
        name = place_name(pick.place, table.schema)
        bucket_dir = table.reading.bucket_dir(pick.place.partition, pick.place.bucket)
        within = table.in_partition(pick.place.partition)
        deletions = tuple(None if vector is None else counted(table, vector) for vector in pick.deletions)
        edges = (None, *bounds, None)
        count = len(edges) - 1
        units = tuple(
            SortUnit(
                name=name if count == 1 else f"{name}, range {number + 1} of {count}",
                table=within,
                rule=self._rule,
                bucket_dir=bucket_dir,
                files=pick.files,
                deletions=deletions,
                checked=tuple(range(number, len(pick.files), count)),
                bounds=(edges[number], edges[number + 1]),
                file_prefix=f"{prefix}-{number}",
                rows=sum(file.row_count for file in pick.files) // count,
                overlap=overlap,
            )
            for number in range(count)
        )
        return WorkPick(
            name=name,
            place=pick.place,
            bucket_dir=bucket_dir,
            reason=f"{self._rule}" + (f", {count} ranges" if count > 1 else ""),
            replaced=pick.files,
            deletions=deletions,
            units=units,
        )

    def _upkeep(self, snapshot: Snapshot | None) -> VectorUpkeep:
        scanner, reading = self._target.scanner, self._target.reading
        store = IndexStore(reading.file_io, reading.paths, reading.schema, self._target.clock)
        files = () if snapshot is None else scanner.index_files(snapshot)
        return VectorUpkeep.of(store, files, one_per_bucket=False)

    def _driver(self, plan: ClusterPlan, names: RunFiles) -> Driver:
        request, target = self._request, self._target
        first = self.landed.next_identifier(request.identifier) if request.named else request.identifier
        settings = RunSettings(
            commit_user=request.commit_user,
            identifier=request.identifier if request.identifier == BATCH_IDENTIFIER else first,
            file_prefixes=names.own,
            until_ms=request.until_ms,
        )
        shape = plan.table.shape
        return Driver(target.reading, shape, target.committer, target.clock, settings, self._on_progress)
