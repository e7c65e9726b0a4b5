"""Compact every night the tables of a database that need it, inside a window, one run at a time."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.compact import CompactTableOperator
from operators.tables import ListTablesOperator

DOC = """
This DAG compacts each table of a database that needs it, one after another, until the window ends.

* A table that needs no compaction is left alone; a second run on the same day does nothing.
* Compacted files are proven equal to the files that they replace before they are committed. The
  report of each table (files, sorted runs, bytes, rows before and after, proof) is the XCom of its task.
* At the end of the window the finished work is committed and the rest is reported; the next night continues.
* `max_active_runs` and `max_active_tis_per_dag` are 1: one table, and one run, at a time. Other writers
  and DAGs may work on the same tables: when commits conflict, the first one wins, and no data is lost.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_NIGHTLY_CRON", "0 2 * * *")

with DAG(
    "lakecore_nightly",
    description="Compact every table of a database inside a nightly window.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(days=1)) if CRON else None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "database": Param("default", type="string", description="Database whose tables are compacted."),
        "include": Param("*", type="string", description="Only tables that match a pattern: orders*, events"),
        "exclude": Param(
            None, type=["null", "string"], description="No table that matches one of these patterns."
        ),
        "strategy": Param(
            "universal",
            type="string",
            enum=["universal", "full"],
            description="universal: what needs it; full: everything, into one sorted run a bucket.",
        ),
        "until": Param(
            "05:00",
            type=["null", "string"],
            description="End of the window: HH:MM (UTC) after the run's start, or a date and time. "
            "Work in hand is committed, the rest is reported. Empty: no end.",
        ),
        "engine": Param(
            "spark",
            type="string",
            enum=["spark", "local"],
            description="local: in the task's process, for tables too small to be worth a Spark session.",
        ),
        "proof": Param(
            "sampled",
            type="string",
            enum=["keys", "sampled", "full"],
            description="keys: keys of all rows; sampled: also every column of at least one row of 16; "
            "full: every column of all rows.",
        ),
    },
    tags=["lakecore", "compaction"],
    doc_md=DOC,
):
    tables = ListTablesOperator(
        task_id="tables",
        database="{{ params.database }}",
        include="{{ params.include }}",
        exclude="{{ params.exclude or '' }}",
        doc_md="Lists the tables of the database: one task of `compact` for each.",
    )
    CompactTableOperator.partial(
        task_id="compact",
        strategy="{{ params.strategy }}",
        until="{{ params.until or '' }}",
        engine="{{ params.engine }}",
        proof="{{ params.proof }}",
        skip_unsupported=True,
        max_active_tis_per_dag=1,
        map_index_template="{{ task.table }}",
        doc_md="Compacts one table. Its report is the XCom `return_value`; a table that this release cannot "
        "compact is skipped, and the XCom `refused` says why.",
    ).expand(table=tables.output)
