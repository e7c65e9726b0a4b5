"""This DAG compacts a table by a batch of Livy on YARN, whose nodes have lakecore.

It was not run against Livy. Tests check that the runner of lakecore understands the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.sdk import DAG, get_current_context, task

DRIVER_FILE = "hdfs:///lakecore/driver.py"  # a copy of lakecore/cli/spark_driver/driver.py

with DAG(
    "lakecore_by_livy",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    render_template_as_native_obj=True,
):

    @task(retries=1)
    def write() -> dict[str, Any]:
        from lakecore.jobs.definitions.compaction import Compact
        from lakecore_airflow.remote import write_job

        job = write_job(Compact(table="shop.orders", lease_ms=60_000), get_current_context())
        variables = job["environment"].items()
        return job | {"conf": {f"spark.yarn.appMasterEnv.{name}": value for name, value in variables}}

    @task(retries=1)
    def report(job: dict[str, Any]) -> dict[str, Any]:
        from lakecore_airflow.remote import read_report

        return read_report(job["job_id"])

    job = write()
    run = LivyOperator(
        task_id="run",
        file=DRIVER_FILE,
        args="{{ ti.xcom_pull('write')['arguments'] }}",
        conf="{{ ti.xcom_pull('write')['conf'] }}",
        polling_interval=15,
        deferrable=True,
        retries=2,
    )
    job >> run >> report(job)
