"""This DAG compacts a table as a step of an EMR cluster; a bootstrap action installs lakecore on its nodes.

It was not run against AWS. Tests check that the runner of lakecore understands the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator
from airflow.sdk import DAG, get_current_context, task

DRIVER_FILE = "s3://bucket/lakecore/driver.py"  # a copy of lakecore/cli/spark_driver/driver.py

with DAG(
    "lakecore_on_emr",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    render_template_as_native_obj=True,
):

    @task(retries=1)
    def write() -> dict[str, Any]:
        from lakecore.jobs.definitions.compaction import Compact
        from lakecore_airflow.remote import write_job

        job = write_job(Compact(table="shop.orders", lease_ms=60_000), get_current_context())
        submit = ["spark-submit", "--deploy-mode", "cluster"]
        for name, value in job["environment"].items():
            submit += ["--conf", f"spark.yarn.appMasterEnv.{name}={value}"]
        return job | {"submit": [*submit, DRIVER_FILE, *job["arguments"]]}

    @task(retries=1)
    def report(job: dict[str, Any]) -> dict[str, Any]:
        from lakecore_airflow.remote import read_report

        return read_report(job["job_id"])

    job = write()
    run = EmrAddStepsOperator(
        task_id="run",
        job_flow_id="j-1234567890ABC",
        steps=[
            {
                "Name": "lakecore",
                "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": {
                    "Jar": "command-runner.jar",
                    "Args": "{{ ti.xcom_pull('write')['submit'] }}",
                },
            }
        ],
        wait_for_completion=True,
        deferrable=True,
        retries=2,
    )
    job >> run >> report(job)
