"""This module has the operator that computes the statistics of a table's rows."""

from __future__ import annotations

from lakecore.jobs.definitions.rows import Analyze
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator

__all__ = ["AnalyzeOperator"]


class AnalyzeOperator(EngineChoreOperator):
    """Compute statistics for query planners and commit them as an ANALYZE snapshot, which changes no row.

    :param columns: names to look at, or `all`; None: only rows are counted.
    """

    definition = Analyze
    doing = "making statistics"
    repeatable = True
