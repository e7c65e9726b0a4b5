"""This module plans from the live files of a primary-key table to picks of units."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from lakecore.clock import local_ms
from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.work import PickOutline, Place, RoundPlan, Strategy, outlines_of, place_name
from lakecore.compact.kinds.primary_key import run
from lakecore.compact.kinds.primary_key.apply import UnitBuilder
from lakecore.compact.kinds.primary_key.expiry import Expiry
from lakecore.compact.kinds.primary_key.mode import MergeMode
from lakecore.compact.kinds.primary_key.plan import PickRequest, pick_runs, plan_picks
from lakecore.data_class import dataclass
from lakecore.lsm.bucket_picks import BucketRules, ColumnPick, pick_buckets
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.scan.change_scanner import Deletions
from lakecore.write.options import FileRules

__all__ = ["PrimaryKeyPlanner", "tree_policy"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class PrimaryKeyPlanner:
    """It plans for primary-key tables (`lakecore.compact.engine.planner.TablePlanner`)."""

    context: PlanContext

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return at most one pick for each bucket. Raises InvalidOptionError."""
        context = self.context
        table = context.unit_table(entries)
        picks, outdated = context.executable(plan_picks(entries, self.request(deletions)), excluded)
        builder = UnitBuilder(
            table=table,
            file_prefix=file_prefix,
            engine=context.executor,
            deletions=deletions,
            copy=context.copy,
        )
        work = context.scheduled(builder.work_picks(picks))
        return RoundPlan(work, run.run_unit, table, outdated, entries)

    def outline(
        self, entries: ManifestEntries, excluded: Collection[Place], deletions: Deletions
    ) -> tuple[PickOutline, ...]:
        """Return the same picks in numbers. Only the files of few buckets become objects."""
        request = self.request(deletions)
        picks: tuple[ColumnPick, ...] = ()
        others = entries
        if not request.needs_files:
            marked = {(partition, bucket) for partition, bucket, _ in deletions}
            picks, others = pick_buckets(entries, _bucket_rules(request), marked)
        schema = self.context.target.reading.schema
        outlines = [
            _outline(pick, entries, schema)
            for pick in picks
            if pick.newest_schema <= schema.id and _place_of(pick, entries) not in excluded
        ]
        rest = self.plan(others, "none", excluded, deletions).picks if len(others) else ()
        return (*outlines, *outlines_of(rest))

    def request(self, deletions: Deletions) -> PickRequest:
        """Return the rules for picks at the current time of the target. Raises InvalidOptionError."""
        target, reading = self.context.target, self.context.target.reading
        now = target.clock.now_ms()
        return PickRequest(
            strategy=self.context.strategy,
            policy=tree_policy(reading),
            mode=MergeMode.of(
                reading.options, lambda level: FileRules.of(reading.schema.options, level).format
            ),
            deletions=deletions,
            key_of=key_order(reading.schema.key_type),
            key_type=reading.schema.key_type,
            now_ms=now,
            expired=_expired_test(reading, now),
            hour=local_ms(now) // _HOUR_MS % 24,
        )


def tree_policy(reading: ReadContext) -> TreePolicy:
    """Return the table's options of universal compaction. Raises InvalidOptionError."""
    options = reading.options
    return TreePolicy.from_options(
        reading.schema.options, options.target_file_size, lookup=options.needs_lookup
    )


def _expired_test(reading: ReadContext, now_ms: int) -> Callable[[DataFile], bool] | None:
    """Return what tells whether a file has expired rows; None where rows do not expire."""
    expiry = Expiry.of(reading.schema, reading.options)
    if expiry is None:
        return None
    return lambda file: expiry.holds_expired(file, reading.file_schema(file.schema_id), now_ms)


def _bucket_rules(request: PickRequest) -> BucketRules:
    """Return the rules for picks from columns."""
    return BucketRules(
        num_levels=request.policy.num_levels,
        small_file_size=request.policy.small_file_size,
        key_type=request.key_type,
        choose=lambda runs, max_level: pick_runs(runs, max_level, request),
        upgrade=request.mode.upgrade,
        force_rewrite=request.policy.force_rewrite and request.strategy is Strategy.FULL,
        looks_up=request.mode.looks_up,
    )


def _place_of(pick: ColumnPick, entries: ManifestEntries) -> Place:
    first = pick.first
    return Place(entries.partition_of(first), int(entries.bucket[first]), int(entries.total_buckets[first]))


def _outline(pick: ColumnPick, entries: ManifestEntries, schema: TableSchema) -> PickOutline:
    """Return a pick from columns in numbers."""
    level, place = pick.pick.output_level, _place_of(pick, entries)
    read = np.concatenate([pick.rewritten, pick.announced])
    return PickOutline(
        name=place_name(place, schema),
        place=place,
        reason=f"{pick.pick.reason} to level {level}",
        output_level=level if len(read) else 0,
        rewrites=len(pick.rewritten),
        rows=int(entries.row_count[read].sum()),
        size=int(entries.file_size[pick.rewritten].sum()),
        moved_rows=int(entries.row_count[pick.moved].sum()),
        moved_size=int(entries.file_size[pick.moved].sum()),
        moves={level: len(pick.moved)} if len(pick.moved) else {},
        names=entries.name_hash[np.concatenate([pick.rewritten, pick.moved])],
    )
