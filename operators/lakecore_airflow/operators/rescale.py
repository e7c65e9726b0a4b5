"""This module has the operator that changes the number of buckets of a table's partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from lakecore.jobs.definitions.rows import Rescale
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.engine_chore import EngineChoreOperator
from lakecore_airflow.tasks.submit_settings import SUBMIT

__all__ = ["RescaleOperator"]


class RescaleOperator(EngineChoreOperator):
    """Move the rows of partitions to another number of buckets; partitions that already have it are left
    alone.

    Writers refuse a partition whose number of buckets is not that of option `bucket`. Stop them, and set the
    option to the same number. A partition that another writer changes during the run is planned again.

    :param bucket_num: the number of buckets; None takes option `bucket`.
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None means all that have another number of
        buckets.
    :param until: stop then, commit what is proven and report the rest: ISO date and time, or `HH:MM` (UTC).
    :param engine: `spark`; None or `local`: in the task's own process; `auto`: in the process unless the
        forecast is longer than Spark takes with its start (the report says why); `submit`: on a driver that
        spark-submit starts, while the task is deferred. (templated)
    """

    definition = Rescale
    doing = "moving rows to other buckets"
    repeatable = True
    takes_auto = True
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local", AUTO, SUBMIT)}
