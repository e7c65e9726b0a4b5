"""This DAG compacts a table by a SparkApplication of Kubernetes' Spark operator: the driver and its executors
are pods of one image.

It was not run against a cluster. Tests check that the runner of lakecore understands the arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.sdk import DAG, get_current_context, task

IMAGE = "registry.example/lakecore-spark:0.1.0"  # docs/docker.md
DRIVER_FILE = "local:///opt/lakecore/lib/python3.12/site-packages/lakecore/cli/spark_driver/driver.py"

with DAG(
    "lakecore_spark_application",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    render_template_as_native_obj=True,
):

    @task(retries=1)
    def write() -> dict[str, Any]:
        from lakecore.jobs.definitions.compaction import Compact
        from lakecore_airflow.remote import write_job

        job = write_job(Compact(table="shop.orders", lease_ms=60_000), get_current_context())
        variables = [{"name": name, "value": value} for name, value in job["environment"].items()]
        return job | {"variables": variables}

    @task(retries=1)
    def report(job: dict[str, Any]) -> dict[str, Any]:
        from lakecore_airflow.remote import read_report

        return read_report(job["job_id"])

    job = write()
    run = SparkKubernetesOperator(
        task_id="run",
        namespace="spark",
        template_spec={
            "spark": {
                "apiVersion": "sparkoperator.k8s.io/v1beta2",
                "kind": "SparkApplication",
                "metadata": {"name": "lakecore"},
                "spec": {
                    "type": "Python",
                    "pythonVersion": "3",
                    "mode": "cluster",
                    "sparkVersion": "4.2.0",
                    "image": IMAGE,
                    "mainApplicationFile": DRIVER_FILE,
                    "arguments": "{{ ti.xcom_pull('write')['arguments'] }}",
                    "driver": {
                        "cores": 1,
                        "memory": "2g",
                        "serviceAccount": "spark",
                        "env": "{{ ti.xcom_pull('write')['variables'] }}",
                        "envFrom": [{"secretRef": {"name": "lakecore"}}],
                    },
                    "executor": {
                        "instances": 2,
                        "cores": 2,
                        "memory": "4g",
                        "envFrom": [{"secretRef": {"name": "lakecore"}}],
                    },
                },
            }
        },
        retries=2,
    )
    job >> run >> report(job)
