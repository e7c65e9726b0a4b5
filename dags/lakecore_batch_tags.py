"""Tag each table for every complete day; a backfill tags past days. A second run changes nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.period_tags import CreateBatchTagsOperator
from operators.tables import ListTablesOperator

DOC = """
This DAG tags the last snapshot of the run's logical date as `eod-YYYY-MM-DD`, in each table of a database.
The scheduled run of a day has the day before as its logical date, so that day is complete.

* The tag is made exactly once: a retry, a cleared task and a second run find it and do nothing.
* Past days: `airflow backfill create --dag-id lakecore_batch_tags --from-date A --to-date B`, or one run with
  the param `backfill`, which creates all missing tags back to `start` (or to the oldest existing tag).
* Days whose snapshots have expired fail and are named in the error; a tag is never guessed.
* A run without a logical date, such as a run that an asset started, tags the last complete day.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_BATCH_TAGS_CRON", "15 0 * * *")

with DAG(
    "lakecore_batch_tags",
    description="Tag the last snapshot of each day, in every table of a database.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(days=1)) if CRON else None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(minutes=2)},
    params={
        "database": Param("default", type="string", description="Database whose tables are tagged."),
        "include": Param("*", type="string", description="Only tables that match a pattern: orders*, events"),
        "exclude": Param(
            None, type=["null", "string"], description="No table that matches one of these patterns."
        ),
        "name": Param("eod-{period}", type="string", description="Names of the tags, with {period} once."),
        "keep": Param(None, type=["null", "integer"], description="Tags that are kept at most; empty: all."),
        "backfill": Param(
            None, type=["null", "boolean"], description="Make the missing tags of earlier days too."
        ),
        "start": Param(
            None, type=["null", "string"], description="First day that should have a tag: YYYY-MM-DD."
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
        doc_md="Lists the tables of the database: one tag for each.",
    )
    CreateBatchTagsOperator.partial(
        task_id="tag",
        date="{{ dag_run.logical_date.isoformat() if dag_run.logical_date else '' }}",
        as_of="{{ dag_run.run_after.isoformat() }}",
        start="{{ params.start or '' }}",
        name="{{ params.name }}",
        num_retained_max="{{ params.keep or '' }}",
        backfill="{{ params.backfill or '' }}",
        map_index_template="{{ task.table }}",
    ).expand(table=tables.output)
