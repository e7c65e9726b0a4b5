"""This module has the DAG that compacts every night the tables that need it, inside a window, one run at a
time.
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
    "schedule": "0 2 * * *",
    **TABLE_DEFAULTS,
    **WINDOW_DEFAULTS,
    "strategy": "universal",
    "until": "05:00",
    **ENGINE_DEFAULTS,
    "proof": "sampled",
}

DOC = """
This DAG compacts each table of the lake that needs it, one after another, until the window ends. The table
whose health is worst by the newest survey (DAG `lakecore_survey`) comes first.

* A table that needs no compaction is left alone; a second run on the same day does nothing.
* Compacted files are proven equal to the files that they replace before they are committed. The
  report of each table (files, sorted runs, bytes, rows before and after, proof) is the XCom of its task.
* Nothing is deleted: the files that a compaction replaced belong to older snapshots until these expire.
* At the end of the window the finished work is committed and the rest is reported; the next night continues.
  Tasks that did nothing any more are skipped (`on_window_end`).
* `budget_bytes`, `budget_core_seconds` and `budget_money` limit what all tasks of a run use together: when it
  is used up, no further table begins, as at the end of the window.
* During a black-out (`blackouts` in `[airflow]` of `lakecore.toml`: days and hours) no run is scheduled. A
  run that somebody starts then is skipped, and its log says why. The window ends when a black-out begins.
* `max_active_runs` and `max_active_tis_per_dag` are 1: one table, and one run, at a time. Other writers
  and DAGs may work on the same tables: when commits conflict, the first one wins, and no data is lost.

The table `[airflow.nightly]` of `lakecore.toml` has the defaults of the params, and `schedule`.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    params = {
        **table_params(settings),
        "strategy": Param(
            settings["strategy"],
            type="string",
            enum=["universal", "full"],
            description="universal: what needs it; full: everything, into one sorted run a bucket.",
        ),
        "engine": dag_engine_param(lake, "tables"),
        "proof": Param(
            settings["proof"],
            type="string",
            enum=["keys", "sampled", "full"],
            description="keys: keys of all rows; sampled: also every column of at least one row of 16; "
            "full: every column of all rows.",
        ),
        **window_params(settings),
    }
    with lake.open(
        params,
        description="Compact every table of the lake inside a nightly window.",
        tags=["lakecore", "compaction"],
        doc_md=DOC,
    ) as dag:
        tables = list_tables(
            "Lists the tables, the worst first: one task of `compact` for each.",
            order="need",
            until=WINDOW["until"],
            blackouts=BLACKOUTS,
        )
        CompactTableOperator.partial(
            task_id="compact",
            strategy="{{ params.strategy }}",
            **engine_parameters(lake),
            proof="{{ params.proof }}",
            **WINDOW,
            lake_conn_id=CONNECTION,
            skip_unsupported=True,
            max_active_tis_per_dag=1,
            map_index_template=LABEL,
            doc_md="Compacts one table. Its report is the XCom `return_value`; a table that this release "
            "cannot compact is skipped, and the XCom `refused` says why.",
        ).expand(table=tables.output)
    return dag
