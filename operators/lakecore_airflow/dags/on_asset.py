"""This module has the DAG that starts a run when one of several tables has new data; the run reads up to
the newest snapshot.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from lakecore_airflow.airflow_names import HAS_ASSET_STATE, AssetOrTimeSchedule, CronTriggerTimetable
from lakecore_airflow.dags.parts import CONNECTION, LakeDag, name_tables, named_tables_param
from lakecore_airflow.sensors.snapshots import NewSnapshotSensor
from lakecore_airflow.settings import SettingsError
from lakecore_airflow.watch import watched_asset

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "0 6 * * *",
    "tables": [],
    "poke_seconds": 30,
}

DOC = """
This DAG runs when a table has new data. The triggerer watches all tables with one poll. The tables are
`tables` in the table `[airflow.on_asset]` of `lakecore.toml`, beside `schedule` and `poke_seconds`; while it
names none, the daily run has nothing to do.

* An event only starts a run: each run takes what is new since the last run of this DAG, whatever event
  started it, so events that arrive during a run lose nothing. Once a day a run checks without any event.
* Compactions are skipped: they add no new data, and a DAG that compacts does not start itself.
* An event has `table`, `snapshot`, `first`, `last`, `count` and, where known, `partitions` and `tags`; a task
  reads them from `triggering_asset_events`.
* Do not pause this DAG for a while: data that arrives during a pause starts a run only with the next event.
"""

NUMBERS = "range(ti.xcom_pull(task_ids='tables') | length) | list"
ARRIVED = f"ti.xcom_pull(task_ids='new_snapshots', map_indexes={NUMBERS})"


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    params = named_tables_param(
        lake.settings, "The tables whose new data a run takes: those that are watched."
    )
    with lake.open(
        params,
        schedule=_schedule(lake),
        description="Start downstream work when one of several tables has new data.",
        tags=["lakecore", "asset"],
        doc_md=DOC,
    ) as dag:
        tables = name_tables("The tables that are watched.")
        arrived = NewSnapshotSensor.partial(
            task_id="new_snapshots",
            soft_fail=True,
            timeout=0,
            deferrable=False,
            lake_conn_id=CONNECTION,
            map_index_template="{{ task.table }}",
            doc_md="Find the snapshots of one table since the last run; without any, the task is skipped.",
        ).expand(table=tables.output)
        downstream = BashOperator(
            task_id="downstream",
            trigger_rule="none_failed_min_one_success",
            bash_command='echo "arrived: $ARRIVED"',
            append_env=True,
            env={"ARRIVED": "{{ %s | select | list }}".replace("%s", ARRIVED)},
        )
        arrived >> downstream
    return dag


def _schedule(lake: LakeDag) -> Any:
    """Return what starts runs: events of the watched tables, and the clock."""
    settings = lake.settings
    if settings["tables"] and not HAS_ASSET_STATE:
        raise SettingsError(
            f"airflow.on_asset: tables={settings['tables']!r} needs Airflow 3.3, which stores positions of"
            " watchers. Name the tables in airflow.on_snapshot, whose sensors need no watcher"
        )
    poll = float(settings["poke_seconds"])
    watched = [
        watched_asset(table, poke_interval=poll, lake_conn_id=lake.connection) for table in settings["tables"]
    ]
    clock = CronTriggerTimetable(settings["schedule"], timezone="UTC") if settings["schedule"] else None
    if not watched:
        return clock
    arrivals = reduce(or_, watched)
    return arrivals if clock is None else AssetOrTimeSchedule(timetable=clock, assets=arrivals)
