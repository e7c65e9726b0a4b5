"""Waits for a tag and for a partition that is done, both in the triggerer."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from lakecore_airflow.sensors.partitions import PartitionDoneSensor
from lakecore_airflow.sensors.tags import TagSensor

with DAG(
    "lakecore_waits",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"retries": 2, "deferrable": True, "poke_interval": 1, "table": "{{ params.table }}"},
    params={"table": Param("", type="string")},
):
    TagSensor(task_id="tag")
    PartitionDoneSensor(task_id="partition", partitions="dt=2024-01-01;dt=2024-01-02")
