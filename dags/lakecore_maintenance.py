"""Every night: let each table of a database forget what nobody needs any more."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.expire import ExpireSnapshotsOperator
from operators.orphans import RemoveOrphanFilesOperator
from operators.tables import ListTablesOperator
from operators.tags import ExpireTagsOperator

DOC = """
Expires tags and snapshots of each table of a database, then moves orphan files into the quarantine.

* How long snapshots are kept is up to the options of each table (`snapshot.time-retained`, ...).
* Nothing is deleted that a snapshot, tag, branch or consumer still needs; the report of each task says what
  holds back expiry. `lakecore why DB.TABLE` explains it.
* Orphans of at least two days wait in the quarantine for a week: `lakecore undo RUN` takes them back.
* Two runs never meet on a table: they take its lease. A killed task finishes its work when it is tried again.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_MAINTENANCE_CRON", "0 5 * * *")

with DAG(
    "lakecore_maintenance",
    description="Expire tags and snapshots of every table of a database, remove orphan files.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(days=1)) if CRON else None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(minutes=2)},
    params={
        "database": Param("default", type="string", description="Database whose tables are maintained."),
        "include": Param("*", type="string", description="Only tables that match a pattern: orders*, events"),
        "exclude": Param(
            None, type=["null", "string"], description="No table that matches one of these patterns."
        ),
        "max_deletes": Param(
            500, type="integer", description="Snapshots that are expired at most, per table and night."
        ),
    },
    tags=["lakecore", "maintenance"],
    doc_md=DOC,
):
    tables = ListTablesOperator(
        task_id="tables",
        database="{{ params.database }}",
        include="{{ params.include }}",
        exclude="{{ params.exclude or '' }}",
        doc_md="Lists the tables of the database: one task of each chore for each.",
    )
    tags = ExpireTagsOperator.partial(task_id="expire_tags", map_index_template="{{ task.table }}").expand(
        table=tables.output
    )
    snapshots = ExpireSnapshotsOperator.partial(
        task_id="expire_snapshots",
        max_deletes="{{ params.max_deletes }}",
        map_index_template="{{ task.table }}",
        trigger_rule="all_done",
    ).expand(table=tables.output)
    orphans = RemoveOrphanFilesOperator.partial(
        task_id="remove_orphan_files",
        older_than="{{ (dag_run.run_after - macros.timedelta(days=2)).isoformat() }}",
        map_index_template="{{ task.table }}",
        trigger_rule="all_done",
    ).expand(table=tables.output)
    tags >> snapshots >> orphans
