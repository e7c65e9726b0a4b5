"""This module plans from the live files of a table with `pk-clustering-override` to picks of units."""

from __future__ import annotations

from collections.abc import Collection

from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.work import PickOutline, Place, RoundPlan, Strategy, outlines_of
from lakecore.compact.kinds.clustered_primary_key.apply import ClusteredBuilder
from lakecore.compact.kinds.clustered_primary_key.plan import (
    ClusteredRequest,
    Picks,
    bounds_of,
    plan_clustered,
)
from lakecore.compact.kinds.clustered_primary_key.run import run_unit
from lakecore.compact.kinds.primary_key.planner import tree_policy
from lakecore.compact.kinds.sort.plan import CutPolicy, check_columns
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions

__all__ = ["ClusteredPrimaryKeyPlanner"]


@dataclass(frozen=True)
class ClusteredPrimaryKeyPlanner:
    """It plans for primary-key tables whose files are in another order than the key's
    (`lakecore.compact.engine.planner.TablePlanner`).
    """

    context: PlanContext

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return merges of level 0 and sorts of level 1.

        Raises InvalidOptionError; InvalidInputError for clustering columns that cannot order rows.
        """
        context = self.context
        target, reading = context.target, context.target.reading
        table, columns = context.unit_table(entries), reading.options.clustering_columns
        if varied := tuple(name for name in columns if name not in reading.schema.partition_keys):
            check_columns(target.name, reading.schema, OrderStrategy.ORDER, varied)
        picks = plan_clustered(entries, self._request(columns, deletions))
        fresh, outdated = context.executable(picks.fresh, excluded)
        sorts, outdated_sorts = context.executable(picks.sorts, excluded)
        builder = ClusteredBuilder(
            table=table,
            rule=SortRule(OrderStrategy.ORDER, columns),
            file_prefix=file_prefix,
            engine=context.executor,
            deletions=deletions,
        )
        work = context.scheduled(builder.work_picks(Picks(tuple(fresh), tuple(sorts))))
        return RoundPlan(work, run_unit, table, outdated | outdated_sorts, entries)

    def outline(
        self, entries: ManifestEntries, excluded: Collection[Place], deletions: Deletions
    ) -> tuple[PickOutline, ...]:
        """Return the same picks in numbers."""
        return outlines_of(self.plan(entries, "none", excluded, deletions).picks)

    def _request(self, columns: tuple[str, ...], deletions: Deletions) -> ClusteredRequest:
        context, reading = self.context, self.context.target.reading
        target_size, full = reading.options.target_file_size, context.strategy is Strategy.FULL
        return ClusteredRequest(
            full=full,
            everything=full and tree_policy(reading).force_rewrite,
            target_size=target_size,
            bounds_of=bounds_of(reading.schema.row_type.select(columns), reading.file_schema),
            cuts=CutPolicy(parallelism=context.executor.parallelism, target_file_size=target_size),
            deletions=deletions,
        )
