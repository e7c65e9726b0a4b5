"""This module has the base of chores whose units may run on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore import ChoreOperator
from lakecore_airflow.tasks.submit import SubmitTask, report_of
from lakecore_airflow.tasks.submit_settings import SUBMIT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.jobs.remote.record import RunResult

__all__ = ["EngineChoreOperator"]


class EngineChoreOperator(SubmitTask, ChoreOperator):
    """This is a chore whose units may run on many executors. In a policy the task that runs the policy
    chooses the engine.

    :param engine: `spark`; None or `local`: in the task's own process; `submit`: on a driver that
        spark-submit starts, while the task is deferred. (templated)
    :param master: Spark master; None: the connection's, else `local[*]`. (templated)
    :param submit: with `engine="submit"`, how the driver is submitted: `{"conn_id": "spark_default"}`; see
        docs/airflow.md. (templated)
    """

    settings: ClassVar[Mapping[str, Any]] = {"engine": None, "master": None, "submit": None}
    words: ClassVar[Mapping[str, Sequence[str]]] = {"engine": ("spark", "local", SUBMIT)}

    def run_job(self, context: Context) -> dict[str, Any]:
        with airflow_errors():
            if not self.submits:
                return super().run_job(context)
            result = self.submit_job(context, LakeHook(self.lake_conn_id), [self._job(context)])
        return self.take_result(context, result)

    def take_result(self, context: Context, result: RunResult) -> dict[str, Any]:
        """Return the XCom of a run on a driver elsewhere."""
        return self.finish(context, report_of(result))
