"""The DAG that waits for new data in tables, then runs the tasks that depend on it: here, one reports the
snapshots.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param

from lakecore_airflow.airflow_names import CronTriggerTimetable
from lakecore_airflow.dags.parts import CONNECTION, LakeDag, name_tables, named_tables_param
from lakecore_airflow.sensors.snapshots import NewSnapshotSensor

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "*/15 * * * *",
    "tables": [],
    "poke_seconds": 30,
}

DOC = """
This DAG waits until a table has new data, then runs the tasks that depend on it. The sensor's
XCom is the range of snapshots, `{"table": "db.t", "first": 7, "last": 9, "count": 3}`: read what they
added, or simply the newest snapshot. It waits for the tables that the param `tables` names, in each run for
all of them; while none is named, a run is skipped.

* Compactions are skipped: they add no new data.
* Each run starts where the last run stopped; a retried run gets the same range again. The position is kept in
  `<warehouse>/.lakecore/positions/`; delete the file to start over, or set `after_snapshot`.
* While nothing arrives the sensor waits in the triggerer and takes no worker.
* A backfill takes the snapshots that were committed inside its data interval, at once.

The table `[airflow.on_snapshot]` of `lakecore.toml` has the defaults: `tables`, `schedule`, `poke_seconds`.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    params = {
        **named_tables_param(
            settings, "The tables that are waited for: shop.orders, crm.leads. Empty: none."
        ),
        "after_snapshot": Param(
            None,
            type=["null", "integer"],
            description="Wait for snapshots above this id; empty: above the last one this DAG consumed.",
        ),
    }
    cron = settings["schedule"]
    timetable = CronTriggerTimetable(cron, timezone="UTC", interval=timedelta(minutes=15)) if cron else None
    with lake.open(
        params,
        schedule=timetable,
        description="Start downstream work when a table has new data.",
        tags=["lakecore", "sensor"],
        doc_md=DOC,
    ) as dag:
        tables = name_tables("The tables that are waited for.")
        arrived = NewSnapshotSensor.partial(
            task_id="new_snapshot",
            after_snapshot="{{ params.after_snapshot }}",
            deferrable=True,
            poke_interval=float(settings["poke_seconds"]),
            timeout=12 * 3600,
            lake_conn_id=CONNECTION,
            map_index_template="{{ task.table }}",
        ).expand(table=tables.output)
        downstream = BashOperator.partial(
            task_id="downstream",
            bash_command="echo snapshots $FIRST to $LAST of $TABLE",
            append_env=True,
            map_index_template="{{ task.env.get('TABLE') }}",
        ).expand(env=arrived.output.map(_as_environment))
        arrived >> downstream
    return dag


def _as_environment(result: dict[str, object]) -> dict[str, str]:
    return {key.upper(): str(result[key]) for key in ("table", "first", "last")}
