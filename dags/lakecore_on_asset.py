"""Start a run when one of several tables has new data; the run reads up to the newest snapshot."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable

from operators.snapshots import NewSnapshotSensor
from operators.watch import watched_asset

DOC = """
This DAG runs when a table has new data. The triggerer watches all tables with one poll. The variable
`LAKECORE_WATCH` of the DAG processor lists the tables, separated by commas.

* An event only starts a run: each run takes what is new since the last run of this DAG, whatever event
  started it, so events that arrive during a run lose nothing. Once a day a run checks without any event.
* Compactions are skipped: they add no new data, and a DAG that compacts does not start itself.
* An event has `table`, `snapshot`, `first`, `last`, `count` and, where known, `partitions` and `tags`; a task
  reads them from `triggering_asset_events`.
* Do not pause this DAG for a while: data that arrives during a pause starts a run only with the next event.
"""

TABLES = [name.strip() for name in os.environ.get("LAKECORE_WATCH", "default.events").split(",")]
ARRIVED = f"ti.xcom_pull(task_ids='new_snapshots', map_indexes={list(range(len(TABLES)))})"
POKE_SECONDS = float(os.environ.get("LAKECORE_POKE_SECONDS", "30"))
ARRIVALS = reduce(or_, [watched_asset(table, poke_interval=POKE_SECONDS) for table in TABLES])

# Empty: no clock, only events start runs.
CRON = os.environ.get("LAKECORE_WATCH_CRON", "0 6 * * *")

with DAG(
    "lakecore_on_asset",
    description="Start downstream work when one of several tables has new data.",
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable(CRON, timezone="UTC"), assets=ARRIVALS)
    if CRON
    else ARRIVALS,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["lakecore", "asset"],
    doc_md=DOC,
):
    arrived = NewSnapshotSensor.partial(
        task_id="new_snapshots",
        soft_fail=True,
        timeout=0,
        deferrable=False,
        map_index_template="{{ task.table }}",
        doc_md="Find the snapshots of one table since the last run; without any, the task is skipped.",
    ).expand(table=TABLES)
    downstream = BashOperator(
        task_id="downstream",
        trigger_rule="none_failed_min_one_success",
        bash_command='echo "arrived: $ARRIVED"',
        append_env=True,
        env={"ARRIVED": "{{ %s | select | list }}".replace("%s", ARRIVED)},
    )
    arrived >> downstream
