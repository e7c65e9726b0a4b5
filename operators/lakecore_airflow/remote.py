"""This module submits jobs by operators of other providers: a task writes the job to the warehouse, an
operator starts the runner with the arguments of that task, and a last task reads the report.

`docs/examples` has a DAG for Kubernetes, EMR, Databricks and Livy each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.identity import commit_identity
from lakecore_airflow.tasks.submit import job_file, report_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.jobs.definitions.table_job import Definition

__all__ = ["read_report", "write_job"]


def write_job(
    job: Definition,
    context: Context,
    lake_conn_id: str = LakeHook.default_conn_name,
    catalog: str | None = None,
) -> dict[str, Any]:
    """Write a job to the warehouse, and return how its runner is started, as JSON: `job_id`, `arguments` of
    the driver file, `command_line` for a container, `environment` that the runner needs, and `secrets`, the
    names of variables that only the machine of the runner may have.

    All tries of a task write the same job, whose commits are those of the task run. `catalog` is the name of
    a catalog that `lakecore.toml` of the other machine has; without it the environment describes that of the
    connection. Raises AirflowFailException for a job that cannot be run from a file, or has secrets.
    """
    from lakecore.jobs.remote.command import remote_command

    ti = context["ti"]
    with airflow_errors():
        job_of_run = _with_identity(job, ti)
        hook = LakeHook(lake_conn_id)
        file = job_file(ti, [job_of_run])
        hook.job_store().create(file)
        options = {} if catalog else hook.options()
        command = remote_command(file.id, hook.warehouse(), options, catalog)
    return {
        "job_id": command.job_id,
        "arguments": list(command.arguments),
        "command_line": list(command.command_line),
        "environment": dict(command.environment),
        "secrets": list(command.secrets),
    }


def read_report(job_id: str, lake_conn_id: str = LakeHook.default_conn_name) -> dict[str, Any]:
    """Return the report of the newest run of a job that has ended. Raises AirflowException if there is none,
    and the error of a job that failed.
    """
    from lakecore_airflow.airflow_names import AirflowException

    with airflow_errors():
        store = LakeHook(lake_conn_id).job_store()
        view = store.view(job_id)
        if view.state is None:
            raise AirflowException(f"job {job_id} has no result; its newest run is {view.number}")
        return report_of(store.result(job_id, view.number))


def _with_identity(job: Any, ti: Any) -> Definition:
    """Return the job whose commits are those of the task run, unless it names its own."""
    if not hasattr(job, "commit_user") or job.commit_user:
        return job  # type: ignore[no-any-return]
    user, identifier = commit_identity(ti)
    return replace(job, commit_user=user, commit_identifier=identifier)  # type: ignore[no-any-return]
