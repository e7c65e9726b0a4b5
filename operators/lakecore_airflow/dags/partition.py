"""The DAG that compacts the partition of a run's logical date, in each table that has one; a backfill
compacts past days.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from lakecore_airflow.dags.engines import ENGINE_DEFAULTS, dag_engine_param, engine_parameters
from lakecore_airflow.dags.parts import (
    BLACKOUTS,
    CONNECTION,
    TABLE_DEFAULTS,
    WINDOW,
    WINDOW_DEFAULTS,
    LakeDag,
    list_tables,
    table_params,
    window_params,
)
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.reports.outcome import LABEL

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "30 1 * * *",
    **TABLE_DEFAULTS,
    "partition_key": "dt",
    **WINDOW_DEFAULTS,
    **ENGINE_DEFAULTS,
}

DOC = """
This DAG fully compacts one partition of each table that is partitioned by the day: that of the run's logical
date, `<partition key>=YYYY-MM-DD`. The scheduled run of a day has the day before as its logical date, so it
compacts a complete partition. Tables without that partition key, or with one that is no text and no date, are
left out; a table without the partition has nothing to do.

* A run that is started by hand takes `day`, or else its logical date. A run without a logical date, such as
  a run that an asset started, takes the day on which it runs.
* Past days: `airflow backfill create --dag-id lakecore_partition --from-date A --to-date B`. The range counts
  the times at which runs start, so B must be later than 01:30 of its last day. Runs of a backfill wait for
  each other: one task compacts at a time.
* A second run of a day does nothing.

The table `[airflow.partition]` of `lakecore.toml` has the defaults of the params, and `schedule`.
"""

# Runs started by hand or by an asset have no logical date, and no `ds`: the time they run after stands in.
DAY = "{{ params.day or (dag_run.logical_date or dag_run.run_after).strftime('%Y-%m-%d') }}"


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    params = {
        **table_params(settings),
        "partition_key": Param(
            settings["partition_key"],
            type="string",
            description="The partition column that holds the day.",
        ),
        "day": Param(
            None, type=["null", "string"], description="The day, YYYY-MM-DD; empty: the run's logical date."
        ),
        **window_params(settings),
        "engine": dag_engine_param(lake, "partitions"),
    }
    with lake.open(
        params,
        description="Full compaction of one day's partition, in every table that has one.",
        tags=["lakecore", "compaction"],
        doc_md=DOC,
    ) as dag:
        tables = list_tables(
            "Lists the tables that are partitioned by the day.",
            partition_key="{{ params.partition_key }}",
            blackouts=BLACKOUTS,
        )
        CompactTableOperator.partial(
            task_id="compact",
            where="{{ params.partition_key }}=" + DAY,
            strategy="full",
            **WINDOW,
            **engine_parameters(lake),
            lake_conn_id=CONNECTION,
            skip_unsupported=True,
            max_active_tis_per_dag=1,
            map_index_template=LABEL,
            doc_md="Compacts the partition of one table.",
        ).expand(table=tables.output)
    return dag
