"""This module has the DAG that follows the tables of the lake, and compacts what others write to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from lakecore_airflow.airflow_names import CronTriggerTimetable
from lakecore_airflow.dags.engines import check_engine
from lakecore_airflow.dags.parts import BLACKOUTS, CONNECTION, LakeDag, blackouts_param
from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "*/5 * * * *",
    "including_databases": ".*",
    "including_tables": ".*",
    "excluding_tables": "",
    "engine": "spark",
    "checkpoint": "",
    "interval": 10.0,
    "run_for": "24 h",
    "blackouts": [],
}

_ENGINES = ("spark", "local")

DOC = """
This DAG is the dedicated compactor of tables with `write-only=true`: one task looks at the tables of the lake
every `interval` seconds, and compacts those to which others have written.

* One run is active at a time. It ends after `run_for`, and the next one begins within five minutes; so does
  the one after a worker that died. Nothing but unfinished work is lost then.
* The task takes a slot of a worker, and one Spark session, as long as it runs.
* A table that is not `write-only` is compacted, too. `including_tables` and `excluding_tables` choose.
* During a black-out (`blackouts` in `[airflow]` of `lakecore.toml`) no run is scheduled, and one that
  somebody starts is skipped. The beginning of a black-out ends the run: the round in hand is done.
* Other DAGs may compact the same tables: a table that another task holds is looked at in the next round.

The table `[airflow.compactor]` of `lakecore.toml` has the defaults of the params, and `schedule`.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    check_engine(lake, _ENGINES)
    cron, blackouts = settings["schedule"], settings["blackouts"]
    every_few_minutes = CronTriggerTimetable(cron, timezone="UTC") if cron and not blackouts else None
    with lake.open(
        _params(settings),
        schedule=every_few_minutes,
        description="Keep the tables of the lake compacted while others write to them.",
        tags=["lakecore", "compaction"],
        doc_md=DOC,
    ) as dag:
        DedicatedCompactionOperator(
            task_id="follow",
            including_databases="{{ params.including_databases }}",
            including_tables="{{ params.including_tables }}",
            excluding_tables="{{ params.excluding_tables or '' }}",
            engine="{{ params.engine }}",
            checkpoint="{{ params.checkpoint or '' }}",
            interval="{{ params.interval }}",
            run_for="{{ params.run_for or '' }}",
            blackouts=BLACKOUTS,
            skip_unsupported=True,
            lake_conn_id=CONNECTION,
            doc_md="Follows the tables until `run_for` is over. The XCom has the number of compactions, and "
            "how the last one of each table ended.",
        )
    return dag


def _params(settings: Mapping[str, Any]) -> dict[str, Param]:
    return {
        "including_databases": Param(
            settings["including_databases"], type="string", description="Regular expression for databases."
        ),
        "including_tables": Param(
            settings["including_tables"], type="string", description="The same for database.table."
        ),
        "excluding_tables": Param(
            settings["excluding_tables"] or None,
            type=["null", "string"],
            description="The same, of tables to leave alone. Empty: none.",
        ),
        "engine": Param(
            settings["engine"],
            type="string",
            enum=list(_ENGINES),
            description="local: in the task's process, for tables too small to be worth a Spark session.",
        ),
        "checkpoint": Param(
            settings["checkpoint"] or None,
            type=["null", "string"],
            description="Checkpoint location of a streaming query that does the work (spark). Empty: none.",
        ),
        "interval": Param(settings["interval"], type="number", description="Seconds between two looks."),
        "run_for": Param(
            settings["run_for"] or None,
            type=["null", "string"],
            description="The task ends after this time: 24 h. Empty: it runs until it is stopped.",
        ),
        "blackouts": blackouts_param(settings["blackouts"]),
    }
