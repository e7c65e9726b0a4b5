"""This DAG compacts a table by a run of Databricks on a cluster of its own.

It was not run against Databricks. Tests check that the runner of lakecore understands the arguments. The
runner needs a cluster with access mode *dedicated*: Spark Connect has no SparkContext.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
from airflow.sdk import DAG, get_current_context, task

DRIVER_FILE = "dbfs:/lakecore/driver.py"  # a copy of lakecore/cli/spark_driver/driver.py

with DAG(
    "lakecore_on_databricks",
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
    run = DatabricksSubmitRunOperator(
        task_id="run",
        json={
            "run_name": "lakecore",
            "tasks": [
                {
                    "task_key": "lakecore",
                    "spark_python_task": {
                        "python_file": DRIVER_FILE,
                        "parameters": "{{ ti.xcom_pull('write')['arguments'] }}",
                    },
                    "libraries": [{"pypi": {"package": "lakecore"}}],
                    "new_cluster": {
                        "spark_version": "18.x-scala2.13",
                        "node_type_id": "i3.xlarge",
                        "num_workers": 2,
                        "data_security_mode": "SINGLE_USER",
                        "spark_env_vars": "{{ ti.xcom_pull('write')['environment'] }}",
                    },
                }
            ],
        },
        deferrable=True,
        retries=2,
    )
    job >> run >> report(job)
