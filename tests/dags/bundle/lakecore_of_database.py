"""Chores, a drop, a restore and a rename of a table in the catalog of a connection."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param, chain

from lakecore_airflow.operators import (
    CompactTableOperator,
    CreateTagOperator,
    DropTableOperator,
    ExpireSnapshotsOperator,
    RenameTableOperator,
    RestoreTableOperator,
)

TABLE = "{{ params.table }}"

with DAG(
    "lakecore_of_database",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    default_args={"lake_conn_id": "{{ params.connection }}", "table": TABLE},
    params={"table": Param("", type="string"), "connection": Param("", type="string")},
):
    chain(
        CompactTableOperator(task_id="compact", strategy="full", engine="local"),
        CreateTagOperator(task_id="tag", tag="done"),
        ExpireSnapshotsOperator(task_id="expire", retain_max=1, retain_min=1),
        DropTableOperator(task_id="drop"),
        RestoreTableOperator(task_id="restore", drop="{{ ti.xcom_pull(task_ids='drop')['drop'] }}"),
        RenameTableOperator(task_id="rename", new_name=f"{TABLE}_2"),
    )
