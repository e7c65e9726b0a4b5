"""This module has the operator that computes the statistics of a table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lakecore.jobs.definitions.rows import Analyze
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator
from lakecore_airflow.tasks.submit_settings import SUBMIT

__all__ = ["AnalyzeOperator"]


class AnalyzeOperator(EngineChoreOperator):
    """Compute statistics for query planners and commit them as an ANALYZE snapshot, which changes no row.

    :param columns: names to look at, or `all`; None: only rows are counted.
    :param engine: `spark`; None or `local`: in the task's own process; `auto`: in the process unless the
        forecast is longer than Spark takes with its start (the report says why); `submit`: on a driver that
        spark-submit starts, while the task is deferred. (templated)
    """

    definition = Analyze
    doing = "making statistics"
    repeatable = True
    takes_auto = True
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local", AUTO, SUBMIT)}
