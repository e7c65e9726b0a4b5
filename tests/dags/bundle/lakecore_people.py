"""Gives a user privileges and takes them back; drops, restores and renames a table, and drops its database."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param, chain

from lakecore_airflow.operators import (
    CreatePrivilegedUserOperator,
    DropDatabaseOperator,
    DropPrivilegedUserOperator,
    DropTableOperator,
    GrantPrivilegeToUserOperator,
    InitFileBasedPrivilegeOperator,
    ListPrivilegesOperator,
    RenameTableOperator,
    RestoreTableOperator,
    RevokePrivilegeFromUserOperator,
)

GUARDED = {"lake_conn_id": "guarded"}
READER = {"user": "reader", **GUARDED}
SELECT = {"privilege": "SELECT", "table": "{{ params.guarded_table }}", **READER}

with DAG(
    "lakecore_people",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"table": Param("", type="string"), "guarded_table": Param("", type="string")},
):
    chain(
        InitFileBasedPrivilegeOperator(task_id="init", password_conn_id="guarded_root", **GUARDED),
        CreatePrivilegedUserOperator(task_id="create_user", password_conn_id="guarded_root", **READER),
        GrantPrivilegeToUserOperator(task_id="grant", **SELECT),
        ListPrivilegesOperator(task_id="privileges", **GUARDED),
        RevokePrivilegeFromUserOperator(task_id="revoke", **SELECT),
        DropPrivilegedUserOperator(task_id="drop_user", **READER),
    )
    drop = DropTableOperator(task_id="drop", table="{{ params.table }}")
    chain(
        drop,
        RestoreTableOperator(
            task_id="restore",
            table="{{ params.table }}",
            drop="{{ ti.xcom_pull(task_ids='drop')['drop'] }}",
        ),
        RenameTableOperator(task_id="rename", table="{{ params.table }}", new_name="{{ params.table }}_2"),
        DropDatabaseOperator(
            task_id="drop_database", database="{{ params.table.partition('.')[0] }}", cascade=True
        ),
    )
