"""Wait for new data in a table, then run the tasks that depend on it: here, one reports the snapshots."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.snapshots import NewSnapshotSensor

DOC = """
This DAG waits until a table has new data, then runs the tasks that depend on it. The sensor's
XCom is the range of snapshots, `{"table": "db.t", "first": 7, "last": 9, "count": 3}`: read what they
added, or simply the newest snapshot.

* Compactions are skipped: they add no new data.
* Each run starts where the last run stopped; a retried run gets the same range again. The position is kept in
  `<warehouse>/.lakecore/positions/`; delete the file to start over, or set `after_snapshot`.
* While nothing arrives the sensor waits in the triggerer and takes no worker.
* A backfill takes the snapshots that were committed inside its data interval, at once.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_SNAPSHOT_CRON", "*/15 * * * *")
POKE_SECONDS = float(os.environ.get("LAKECORE_POKE_SECONDS", "30"))

with DAG(
    "lakecore_on_snapshot",
    description="Start downstream work when a table has new data.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(minutes=15)) if CRON else None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(seconds=30)},
    params={
        "table": Param("default.events", type="string", description="database.table"),
        "after_snapshot": Param(
            None,
            type=["null", "integer"],
            description="Wait for snapshots above this id; empty: above the last one this DAG consumed.",
        ),
    },
    tags=["lakecore", "sensor"],
    doc_md=DOC,
):
    arrived = NewSnapshotSensor(
        task_id="new_snapshot",
        table="{{ params.table }}",
        after_snapshot="{{ params.after_snapshot }}",
        deferrable=True,
        poke_interval=POKE_SECONDS,
        timeout=12 * 3600,
    )
    (
        BashOperator(
            task_id="downstream",
            bash_command="echo snapshots $FIRST to $LAST of $TABLE",
            append_env=True,
            env={
                "TABLE": "{{ params.table }}",
                "FIRST": "{{ ti.xcom_pull(task_ids='new_snapshot')['first'] }}",
                "LAST": "{{ ti.xcom_pull(task_ids='new_snapshot')['last'] }}",
            },
        )
        << arrived
    )
