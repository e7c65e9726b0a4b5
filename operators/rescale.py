"""Another number of buckets for a table's partitions, as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from operators.chore import ChoreOperator
from operators.engine import EngineTask

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.chore import Lake, Report, Safety

__all__ = ["RescaleOperator"]


class RescaleOperator(EngineTask, ChoreOperator):
    """Move the rows of partitions to another number of buckets; partitions that have it are left alone.

    Writers refuse a partition whose number is not that of option `bucket`; stop them, and set the option to
    the same number. A partition that others write to meanwhile is planned again.

    :param bucket_num: how many buckets; None: as option `bucket` says.
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None: all with another number.
    :param engine: `spark`; None or `local`: in the task's own process.
    :param master: Spark master; None: `local[*]`.
    """

    doing = "moving rows to other buckets"
    module = "rescale"
    parameters: ClassVar = {
        "bucket_num": "int",
        "where": "text",
        "options": "options",
        "engine": "text",
        "master": "text",
    }
    repeatable = True

    @classmethod
    def run_job(
        cls,
        table: str,
        given: Mapping[str, Any],
        lake: Lake,
        safety: Safety,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
    ) -> Report:
        """As a chore does; where it runs is no matter of the job."""
        values = {name: value for name, value in given.items() if name not in ("engine", "master")}
        return super().run_job(table, values, lake, safety, dry_run=dry_run, executor=executor)
