"""This module lets a task on the table `CONNECTION.DB.TABLE` work on the catalog of that connection."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from lakecore_airflow.airflow_names import AirflowNotFoundException

__all__ = ["use_named_connection"]


def use_named_connection(task: Any) -> None:
    """Move the connection from the name of the task's table to `lake_conn_id`.

    Rule: a name of three parts begins with a connection if there is a connection of the type `lakecore` with
    that id; else a dot is part of the table's name. It costs a look at the connection, for such names only.
    """
    from lakecore.catalog.configured.catalog_names import qualified

    table = getattr(task, "table", None)
    if not isinstance(table, str):
        return
    name = qualified(table, _Connections())
    if name.catalog is not None:
        task.lake_conn_id, task.table = name.catalog, name.rest


class _Connections:
    """It has the ids of connections of the type `lakecore`."""

    def __contains__(self, conn_id: object) -> bool:
        try:
            return bool(BaseHook.get_connection(str(conn_id)).conn_type == "lakecore")
        except AirflowNotFoundException:
            return False
