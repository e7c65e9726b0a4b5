"""This DAG compacts a table in a pod of Kubernetes, whose image has the command `lakecore`, Java and PySpark.

It was not run against a cluster. Tests check that the runner of lakecore understands the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.secret import Secret
from airflow.sdk import DAG, get_current_context, task

with DAG(
    "lakecore_in_a_pod",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    render_template_as_native_obj=True,
):

    @task(retries=1)
    def write() -> dict[str, Any]:
        from lakecore.jobs.definitions.compaction import Compact
        from lakecore_airflow.remote import write_job

        return write_job(Compact(table="shop.orders", lease_ms=60_000), get_current_context())

    @task(retries=1)
    def report(job: dict[str, Any]) -> dict[str, Any]:
        from lakecore_airflow.remote import read_report

        return read_report(job["job_id"])

    job = write()
    run = KubernetesPodOperator(
        task_id="run",
        name="lakecore",
        image="registry.example/lakecore-spark:0.1.0",  # docs/docker.md
        cmds=["lakecore"],
        arguments="{{ ti.xcom_pull('write')['arguments'] + ['--engine', 'spark', '--master', 'local[2]'] }}",
        env_vars="{{ ti.xcom_pull('write')['environment'] }}",
        secrets=[  # the variables that `secrets` of the task `write` names
            Secret("env", "LAKECORE_CATALOG__REMOTE__S3__SECRET_KEY", "lakecore", "s3-secret-key"),
        ],
        deferrable=True,
        retries=2,
    )
    job >> run >> report(job)
