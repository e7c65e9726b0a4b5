"""This module represents tables as Airflow assets: their names, and the content of their events.

The `extra` of an event has at least `table` and `snapshot`, whether a task or a watcher emitted it. It also
has `tags` and `partitions` (at most 20 each) where they are known, and `job` when a task emitted it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.execution_time.context import OutletEventAccessor

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["announce", "announce_change", "table_asset"]

_DEFAULT_CONN = "lake_default"
_PARTITIONED = "partitioned"
_KEYS = ("partitions", "tags")


def table_asset(
    table: str, *, lake_conn_id: str = _DEFAULT_CONN, partitioned: bool = False, **asset: Any
) -> Asset:
    """Return the asset of a table. Tables of different connections are different assets.

    :param table: `database.table`; templates are not allowed, because an asset is defined before any run.
    :param partitioned: tasks with this outlet emit one event for each partition or tag that they process,
        with its name as Airflow's partition key. Airflow then starts one run for each key of the DAGs that
        have a partitioned schedule. It starts no run of another schedule for such events. Tasks emit keys
        since Airflow 3.3.
    :param asset: further arguments of `Asset`, except its name and address: `watchers`, `extra`,
        `access_control`.

    Raises UnsupportedError for `partitioned` with an earlier Airflow.
    """
    extra = {"table": table, "lake_conn_id": lake_conn_id, **asset.pop("extra", {})}
    if partitioned and not hasattr(OutletEventAccessor, "add_partitions"):
        from lakecore.errors import UnsupportedError

        raise UnsupportedError(
            f"table_asset({table!r}, partitioned=True) needs Airflow 3.3: tasks of earlier releases emit"
            " no partition keys; leave `partitioned` out"
        )
    if partitioned:
        extra[_PARTITIONED] = True
    return Asset(**_identity(table, lake_conn_id), group="paimon", extra=extra, **asset)


def _identity(table: str, lake_conn_id: str) -> dict[str, str]:
    address = f"paimon://{lake_conn_id}/{table.replace('.', '/', 1)}"
    return {"name": f"{lake_conn_id}/{table}", "uri": address}


def announce(
    context: Context, task: Any, job: str, report: Mapping[str, Any], about: tuple[str, Sequence[str]]
) -> None:
    """Fill in the events of a task's outlets. An outlet that is an alias gets the table's asset when the task
    has changed something, so that a task that is mapped over tables names the tables it changed.

    `about` says what the names of the report are, and lists all of them. A task that found its work done also
    emits events for these keys, because its first try may have been killed before it emitted them.
    """
    names_are, keys = about
    extra = {"table": report["table"], "job": job, "snapshot": report.get("snapshot")}
    if report.get("names"):
        extra[names_are] = list(report["names"])
    idle = bool(report.get("nothing_to_do") or report.get("dry_run"))
    for outlet in task.outlets or ():
        if isinstance(outlet, Asset):
            event = context["outlet_events"][outlet]
            event.extra.update(extra | {"nothing_to_do": idle})
            if outlet.extra.get(_PARTITIONED) and names_are in _KEYS and not report.get("dry_run"):
                event.add_partitions(list(keys))
    if not idle:
        announce_change(context, task, str(report["table"]), extra)


def announce_change(context: Context, task: Any, table: str, extra: Mapping[str, Any]) -> None:
    """Add the asset of a table that a task has changed to those outlets of the task that are aliases."""
    for outlet in task.outlets or ():
        if isinstance(outlet, AssetAlias):
            asset = table_asset(table, lake_conn_id=task.lake_conn_id)
            context["outlet_events"][outlet].add(asset, dict(extra))
