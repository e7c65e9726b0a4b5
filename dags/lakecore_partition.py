"""Compact the partition of a run's logical date; a backfill compacts past days. A second run does nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from operators.compact import CompactTableOperator

DOC = """
This DAG fully compacts one partition: that of the run's logical date, `<partition key>=YYYY-MM-DD`. The
scheduled run of a day has the day before as its logical date, so it compacts a complete partition.

* A run that is started by hand takes `day`, or else its logical date. A run without a logical date, such as
  a run that an asset started, takes the day on which it runs.
* Past days: `airflow backfill create --dag-id lakecore_partition --from-date A --to-date B`. The range counts
  the times at which runs start, so B must be later than 01:30 of its last day.
* A second run of a day does nothing.
"""

# Empty: no schedule, runs are started by hand.
CRON = os.environ.get("LAKECORE_PARTITION_CRON", "30 1 * * *")

# Runs started by hand or by an asset have no logical date, and no `ds`: the time they run after stands in.
DAY = "{{ params.day or (dag_run.logical_date or dag_run.run_after).strftime('%Y-%m-%d') }}"

with DAG(
    "lakecore_partition",
    description="Full compaction of one day's partition.",
    schedule=CronTriggerTimetable(CRON, timezone="UTC", interval=timedelta(days=1)) if CRON else None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "data-platform", "retries": 2, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param("default.events", type="string", description="database.table"),
        "partition_key": Param("dt", type="string", description="The partition column that holds the day."),
        "day": Param(
            None, type=["null", "string"], description="The day, YYYY-MM-DD; empty: the run's logical date."
        ),
        "until": Param(
            None,
            type=["null", "string"],
            description="End of the window: HH:MM (UTC) after the run's start, or a date and time. "
            "Work in hand is committed, the rest is reported. Empty: no end.",
        ),
        "engine": Param(
            "spark",
            type="string",
            enum=["spark", "local"],
            description="local: in the task's process, for partitions too small to be worth a Spark session.",
        ),
    },
    tags=["lakecore", "compaction"],
    doc_md=DOC,
):
    CompactTableOperator(
        task_id="compact",
        table="{{ params.table }}",
        where="{{ params.partition_key }}=" + DAY,
        strategy="full",
        until="{{ params.until or '' }}",
        engine="{{ params.engine }}",
    )
