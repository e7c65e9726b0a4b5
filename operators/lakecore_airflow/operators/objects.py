"""This module has operators on functions and on the dialects of views, in REST catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakecore.jobs.definitions.objects import AlterFunction, AlterViewDialect, CreateFunction, DropFunction
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.job import JobTask

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = [
    "AlterFunctionOperator",
    "AlterViewDialectOperator",
    "CreateFunctionOperator",
    "DropFunctionOperator",
]


class _ObjectTask(JobTask):
    """An operator that changes a function or a view; its XCom is the report."""

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.definitions.values import new_job
        from lakecore.jobs.runner.dispatch import run_chore

        with airflow_errors():
            job = new_job(self.definition, self.job_fields(context))
            return run_chore(job, LakeHook(self.lake_conn_id).catalog()).to_json()


class CreateFunctionOperator(_ObjectTask):
    """Create a function.

    :param function: the name, `db.function`. (templated)
    :param function_definition: the function in JSON, or its text: `inputParams`, `returnParams`,
        `deterministic`, `definitions`, `comment`, `options`. (templated)
    :param if_not_exists: a function that exists is no error; set it if the task is retried. (templated)
    """

    definition = CreateFunction
    required = ("function",)


class AlterFunctionOperator(_ObjectTask):
    """Change a function.

    :param function: the name, `db.function`. (templated)
    :param change: the change in the JSON of Paimon's FunctionChange, or its text. (templated)
    """

    definition = AlterFunction
    required = ("function", "change")


class DropFunctionOperator(_ObjectTask):
    """Drop a function.

    :param function: the name, `db.function`. (templated)
    :param if_exists: a function that does not exist is no error; set it if the task is retried. (templated)
    """

    definition = DropFunction
    required = ("function",)


class AlterViewDialectOperator(_ObjectTask):
    """Add, update or drop the query of a view for an engine.

    :param view: the name, `db.view`. (templated)
    :param action: `add`, `update` or `drop`. (templated)
    :param engine: the engine whose dialect it is. (templated)
    :param query: the query, which add and update need. (templated)
    """

    definition = AlterViewDialect
    required = ("view", "action")
