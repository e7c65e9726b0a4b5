"""Marks two partitions as done; each has a run of its own of the DAG that is scheduled by them."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, PartitionedAssetTimetable

from lakecore_airflow.assets import table_asset
from lakecore_airflow.operators.partitions import MarkPartitionDoneOperator

TABLE = "waits.a_pk_dedup_b3_part"
ASSET = table_asset(TABLE, partitioned=True)
START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("lakecore_keys", schedule=None, start_date=START):
    MarkPartitionDoneOperator(
        task_id="mark", table=TABLE, partitions="dt=2024-01-01;dt=2024-01-02", outlets=[ASSET]
    )

with DAG(
    "lakecore_by_key", schedule=PartitionedAssetTimetable(assets=ASSET), start_date=START, catchup=False
):
    EmptyOperator(task_id="work")
