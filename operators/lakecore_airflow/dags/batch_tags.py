"""This module has the DAG that tags each table for every complete day; a backfill tags past days."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from lakecore_airflow.dags.parts import (
    CONNECTION,
    DEADLINE_DEFAULTS,
    TABLE_DEFAULTS,
    LakeDag,
    list_tables,
    table_params,
)
from lakecore_airflow.operators.period_tags import CreateBatchTagsOperator
from lakecore_airflow.reports.outcome import LABEL

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    **DEADLINE_DEFAULTS,
    "schedule": "15 0 * * *",
    **TABLE_DEFAULTS,
    "name": "eod-{period}",
    "keep": None,
}

DOC = """
This DAG tags the last snapshot of the run's logical date as `eod-YYYY-MM-DD`, in each table of the lake.
The scheduled run of a day has the day before as its logical date, so that day is complete.

* The tag is made exactly once: a retry, a cleared task and a second run find it and do nothing.
* Past days: `airflow backfill create --dag-id lakecore_batch_tags --from-date A --to-date B`, or one run with
  the param `backfill`, which creates all missing tags back to `start` (or to the oldest existing tag).
* A tag is never guessed. A table that is younger than the day has nothing to do. A table whose snapshots of
  that day have expired is skipped and the log says so; with the param `strict` its task fails.
* A run without a logical date, such as a run that an asset started, tags the last complete day.
* Nothing is deleted unless `keep` says how many tags are kept. A tag keeps the files of its snapshot from
  being deleted.

The table `[airflow.batch_tags]` of `lakecore.toml` has the defaults of the params, and `schedule`.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    params = {
        **table_params(settings),
        "name": Param(settings["name"], type="string", description="Names of the tags, with {period} once."),
        "keep": Param(
            settings["keep"],
            type=["null", "integer"],
            description="Tags that are kept at most; empty: all.",
        ),
        "backfill": Param(
            None, type=["null", "boolean"], description="Create the missing tags of earlier days, too."
        ),
        "start": Param(
            None, type=["null", "string"], description="First day that should have a tag: YYYY-MM-DD."
        ),
        "strict": Param(
            None,
            type=["null", "boolean"],
            description="Fail for a table whose snapshots of the day have expired, instead of skipping it.",
        ),
    }
    with lake.open(
        params,
        description="Tag the last snapshot of each day, in every table of the lake.",
        tags=["lakecore", "maintenance"],
        doc_md=DOC,
    ) as dag:
        tables = list_tables("Lists the tables: one tag for each.")
        CreateBatchTagsOperator.partial(
            task_id="tag",
            date="{{ dag_run.logical_date.isoformat() if dag_run.logical_date else '' }}",
            as_of="{{ dag_run.run_after.isoformat() }}",
            start="{{ params.start or '' }}",
            name="{{ params.name }}",
            num_retained_max="{{ params.keep or '' }}",
            backfill="{{ params.backfill or '' }}",
            skip_expired="{{ not params.strict }}",
            lake_conn_id=CONNECTION,
            map_index_template=LABEL,
        ).expand(table=tables.output)
    return dag
