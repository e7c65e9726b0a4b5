"""This module decides which kind a table is of, for a compaction. A new kind gets a planner in its package,
and a line here.
"""

from __future__ import annotations

from lakecore.compact.engine.planner import PlanContext, TablePlanner
from lakecore.compact.kinds.append.planner import AppendPlanner
from lakecore.compact.kinds.clustered_primary_key.planner import ClusteredPrimaryKeyPlanner
from lakecore.compact.kinds.data_evolution.planner import DataEvolutionPlanner
from lakecore.compact.kinds.primary_key.planner import PrimaryKeyPlanner

__all__ = ["planner_of"]


def planner_of(context: PlanContext) -> TablePlanner:
    """Return the planner for the kind of the table. Nothing is read."""
    reading = context.target.reading
    if reading.options.pk_clustering_override:
        return ClusteredPrimaryKeyPlanner(context)
    if reading.keyed:
        return PrimaryKeyPlanner(context)
    if reading.options.data_evolution:
        return DataEvolutionPlanner(context)
    return AppendPlanner(context)
