"""Statistics of a table's rows as an Airflow task."""

from __future__ import annotations

from typing import ClassVar

from operators.engine_chore import EngineChoreOperator

__all__ = ["AnalyzeOperator"]


class AnalyzeOperator(EngineChoreOperator):
    """Make statistics for planners of queries; commits an ANALYZE snapshot, which changes no row.

    :param columns: names to look at, or `all`; None: only rows are counted.
    """

    doing = "making statistics"
    module = "analyze"
    parameters: ClassVar = {"columns": "names", "options": "options"}
    repeatable = True
