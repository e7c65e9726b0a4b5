"""From the live files of a table to picks of units, by the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lakecore.clock import local_ms
from lakecore.compact.engine.naming import place_name
from lakecore.compact.engine.run import RoundPlan
from lakecore.compact.engine.schedule import scheduled
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place, Strategy, UnitTable, WorkPick
from lakecore.compact.kinds.append import apply as append_apply
from lakecore.compact.kinds.append import run as append_run
from lakecore.compact.kinds.append.plan import JoinPick, JoinRequest, plan_joins
from lakecore.compact.kinds.clustered_primary_key import run as clustered_run
from lakecore.compact.kinds.clustered_primary_key.apply import ClusteredBuilder
from lakecore.compact.kinds.clustered_primary_key.plan import (
    ClusteredRequest,
    FreshPick,
    Picks,
    bounds_of,
    plan_clustered,
)
from lakecore.compact.kinds.data_evolution import apply as evolution_apply
from lakecore.compact.kinds.data_evolution.blob_plan import BlobRules
from lakecore.compact.kinds.data_evolution.plan import Columns, plan_ranges
from lakecore.compact.kinds.primary_key import apply as keyed_apply
from lakecore.compact.kinds.primary_key import run as keyed_run
from lakecore.compact.kinds.primary_key.expiry import Expiry
from lakecore.compact.kinds.primary_key.mode import MergeMode
from lakecore.compact.kinds.primary_key.plan import BucketPick, PickRequest, plan_picks
from lakecore.compact.kinds.sort.plan import CutPolicy, SortPick, check_columns
from lakecore.errors import UnsupportedError
from lakecore.executor import Executor
from lakecore.lsm.options import AppendPolicy, TreePolicy
from lakecore.metadata.dedicated_columns import (
    BLOB_COMPACTION,
    REWRITE_ROW_IDS,
    DedicatedColumns,
    has_dedicated_column_types,
    is_ordinary_file,
)
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BucketMode
from lakecore.read.file.column_sources import field_ids
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions
from lakecore.scan.plan import SplitPolicy
from lakecore.scan.row_ranges import plan_row_ranges
from lakecore.scan.support import check_row_ids
from lakecore.verify.digest.shape import ProofMode
from lakecore.write.options import FileRules

__all__ = ["Planner"]

_HOUR_MS = 3_600_000

AnyPick = TypeVar("AnyPick", BucketPick, JoinPick, FreshPick, SortPick)


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Plans rounds of one run. `engine`: where units will run. `seed`: chooses the rows of sampled proofs."""

    target: RewriteTarget
    strategy: Strategy
    proof: ProofMode
    engine: Executor
    seed: str = ""

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Picks among live `entries`, none of them in the buckets `excluded`. Raises InvalidOptionError."""
        entries = entries.select(entries.bucket >= 0)  # rows that wait for a bucket are no pick
        table = self.target.unit_table(entries, self.proof, self.seed)
        if self.target.reading.options.pk_clustering_override:
            return self._clustered(table, entries, file_prefix, excluded, deletions)
        if self.target.reading.keyed:
            found, outdated = self._known(plan_picks(entries, self._pick_request(deletions)), excluded)
            builder = keyed_apply.UnitBuilder(
                table=table,
                file_prefix=file_prefix,
                engine=self.engine,
                deletions=deletions,
            )
            return RoundPlan(
                self._scheduled(builder.work_picks(found)), keyed_run.run_unit, table, outdated, entries
            )
        if self.target.reading.options.data_evolution:
            return self._joined(entries, file_prefix, excluded, deletions)
        joins, outdated = self._known(plan_joins(entries, self._join_request(), deletions), excluded)
        check_row_ids(
            self.target.name, self.target.reading.options, (f for join in joins for f in join.files)
        )
        picks = self._scheduled(append_apply.work_picks(joins, table, file_prefix))
        return RoundPlan(picks, append_run.run_unit, table, outdated, entries)

    def _clustered(
        self,
        table: UnitTable,
        entries: ManifestEntries,
        file_prefix: str,
        excluded: Collection[Place],
        deletions: Deletions,
    ) -> RoundPlan:
        """Raises InvalidInputError for clustering columns that cannot order rows."""
        reading = self.target.reading
        columns, target_size = reading.options.clustering_columns, reading.options.target_file_size
        if varied := tuple(name for name in columns if name not in reading.schema.partition_keys):
            check_columns(self.target.name, reading.schema, OrderStrategy.ORDER, varied)
        request = ClusteredRequest(
            full=self.strategy is Strategy.FULL,
            everything=self.strategy is Strategy.FULL and self._policy.force_rewrite,
            target_size=target_size,
            bounds_of=bounds_of(reading.schema.row_type.select(columns), reading.file_schema),
            cuts=CutPolicy(parallelism=self.engine.parallelism, target_file_size=target_size),
            deletions=deletions,
        )
        picks = plan_clustered(entries, request)
        fresh, outdated = self._known(picks.fresh, excluded)
        sorts, outdated_too = self._known(picks.sorts, excluded)
        builder = ClusteredBuilder(
            table=table,
            rule=SortRule(OrderStrategy.ORDER, columns),
            file_prefix=file_prefix,
            engine=self.engine,
            deletions=deletions,
        )
        work = builder.work_picks(Picks(tuple(fresh), tuple(sorts)))
        return RoundPlan(
            self._scheduled(work), clustered_run.run_unit, table, outdated | outdated_too, entries
        )

    def _scheduled(self, picks: Sequence[WorkPick]) -> tuple[WorkPick, ...]:
        return scheduled(picks, self.engine)

    def _joined(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Raises UnsupportedError for ordinary files that hold parts of the rows of others, and where deleted
        rows are to get new ids.
        """
        reading = self.target.reading
        plan_row_ranges(entries, SplitPolicy.from_options({}), self.target.name)
        if deletions and REWRITE_ROW_IDS.read(reading.schema.options):
            raise UnsupportedError(
                f"table {self.target.name}: option {REWRITE_ROW_IDS.key}=true: this release does not remove "
                "deleted rows from such tables; unset the option for this run"
            )
        table = self.target.unit_table(entries, self.proof, self.seed)
        picks = plan_ranges(
            entries, self._join_request(), self._columns(entries), deletions, self._blob_rules()
        )
        found, outdated = self._known(picks, excluded)
        picks_of = self._scheduled(evolution_apply.work_picks(found, table, file_prefix))
        return RoundPlan(picks_of, evolution_apply.run_unit, table, outdated, entries)

    def _blob_rules(self) -> BlobRules | None:
        reading = self.target.reading
        raw, row_type = reading.schema.options, reading.schema.row_type
        if not BLOB_COMPACTION.read(raw):
            return None
        dedicated = DedicatedColumns.of(row_type, raw, reading.options.target_file_size)
        ids = frozenset(row_type.field(name).id for name in dedicated.blobs)
        return BlobRules(dedicated.blob_size, ids, partial(field_ids, reading))

    def _columns(self, entries: ManifestEntries) -> Columns:
        """Which columns lie apart: by the options, and in the blob and vector files that there are."""
        reading = self.target.reading
        raw, size = reading.schema.options, reading.options.target_file_size
        dedicated = DedicatedColumns.of(reading.schema.row_type, raw, size)
        ids = {field.name: field.id for field in reading.schema.fields}
        apart = {ids[name] for name in (*dedicated.blobs, *dedicated.vectors)}
        known = entries.select(entries.schema_id <= reading.schema.id)
        held = partial(field_ids, reading)
        for file in known.files() if apart or has_dedicated_column_types(reading.schema.row_type) else ():
            apart |= frozenset() if is_ordinary_file(file.file_name) else held(file)
        return Columns(ids, frozenset(apart), held)

    def _known(
        self, picks: Iterable[AnyPick], excluded: Collection[Place]
    ) -> tuple[list[AnyPick], dict[Place, str]]:
        """The picks that can be done, and what becomes of `RoundPlan.outdated`."""
        schema = self.target.reading.schema
        found = [pick for pick in picks if pick.place not in excluded]
        known = [pick for pick in found if _newest_schema(pick) <= schema.id]
        newer = (pick.place for pick in found if _newest_schema(pick) > schema.id)
        return known, {place: place_name(place, schema) for place in newer}

    def _pick_request(self, deletions: Deletions) -> PickRequest:
        reading = self.target.reading
        now = self.target.clock.now_ms()
        return PickRequest(
            strategy=self.strategy,
            policy=self._policy,
            mode=MergeMode.of(
                reading.options, lambda level: FileRules.of(reading.schema.options, level).format
            ),
            deletions=deletions,
            key_of=key_order(reading.schema.key_type),
            now_ms=now,
            expired=self._expired(now),
            hour=local_ms(now) // _HOUR_MS % 24,
        )

    @property
    def _policy(self) -> TreePolicy:
        options = self.target.reading.options
        raw = self.target.reading.schema.options
        return TreePolicy.from_options(raw, options.target_file_size, lookup=options.needs_lookup)

    def _expired(self, now_ms: int) -> Callable[[DataFile], bool] | None:
        reading = self.target.reading
        expiry = Expiry.of(reading.schema, reading.options)
        if expiry is None:
            return None
        return lambda file: expiry.holds_expired(file, reading.file_schema(file.schema_id), now_ms)

    def _join_request(self) -> JoinRequest:
        reading = self.target.reading
        return JoinRequest(
            strategy=self.strategy,
            policy=AppendPolicy.from_options(reading.schema.options, reading.options.target_file_size),
            ordered=reading.options.bucket_mode is not BucketMode.BUCKET_UNAWARE,
        )


def _newest_schema(pick: BucketPick | JoinPick | FreshPick | SortPick) -> int:
    """The highest schema id among the files whose rows the pick may read."""
    if isinstance(pick, JoinPick):
        return max(file.schema_id for files in (pick.files, *pick.blobs) for file in files)
    if not isinstance(pick, BucketPick):
        return max(file.schema_id for file in pick.files)
    sections = (section for stretch in pick.work.rewrites for section in stretch)
    rewritten = (file for section in sections for file in section.files)
    asked = (file for level in pick.above for file in level)
    return max((file.schema_id for file in (*rewritten, *pick.work.announced, *asked)), default=0)
