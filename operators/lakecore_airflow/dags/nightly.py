"""This module has the DAG that compacts every night the tables that need it, inside a window, one run at a
time.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from lakecore_airflow.dags.engines import (
    ENGINE_DEFAULTS,
    dag_engine_param,
    engine_parameters,
    refuse_budgets,
)
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
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from lakecore_airflow.lake.tables import database_pattern, table_pattern
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.reports.outcome import LABEL
from lakecore_airflow.settings import SettingsError

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    "schedule": "0 2 * * *",
    **TABLE_DEFAULTS,
    **WINDOW_DEFAULTS,
    "strategy": "universal",
    "until": "05:00",
    **ENGINE_DEFAULTS,
    "proof": "sampled",
    "one_task_for": "table",
}

_TABLE, _LAKE = "table", "lake"
_FILTERS = {"database_pattern": database_pattern, "table_pattern": table_pattern}

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
* With the setting `one_task_for = "lake"` one task compacts all tables, several at once: this suits a lake of
  many small tables, of which each would be compacted sooner than Airflow starts a task.
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
    _check(lake)
    with lake.open(
        params,
        description="Compact every table of the lake inside a nightly window.",
        tags=["lakecore", "compaction"],
        doc_md=DOC,
        user_defined_filters=_FILTERS,
    ) as dag:
        if settings["one_task_for"] == _LAKE:
            _compact_lake(lake)
        else:
            _compact_each_table(lake)
    return dag


def _check(lake: LakeDag) -> None:
    """Check the number of tasks. Raises SettingsError."""
    value = lake.settings["one_task_for"]
    if value not in (_TABLE, _LAKE):
        raise SettingsError(f"airflow.{lake.name}: one_task_for is {value!r}; use {_TABLE} or {_LAKE}")
    if value == _LAKE:
        refuse_budgets(lake)


def _compact_each_table(lake: LakeDag) -> None:
    tables = list_tables(
        "Lists the tables, the worst first: one task of `compact` for each.",
        order="need",
        until=WINDOW["until"],
        blackouts=BLACKOUTS,
    )
    CompactTableOperator.partial(
        task_id="compact",
        **_task_parameters(lake),
        max_active_tis_per_dag=1,
        map_index_template=LABEL,
        doc_md="Compacts one table. Its report is the XCom `return_value`; a table that this release "
        "cannot compact is skipped, and the XCom `refused` says why.",
    ).expand(table=tables.output)


def _compact_lake(lake: LakeDag) -> None:
    CompactDatabaseOperator(
        task_id="compact",
        including_databases="{{ params.database | database_pattern }}",
        including_tables="{{ params.include | table_pattern or '.*' }}",
        excluding_tables="{{ (params.exclude or '') | table_pattern }}",
        **_task_parameters(lake),
        doc_md="Compacts all tables, those first that need it most. Its report is the XCom `return_value`: "
        "counts, and the first tables that failed or were skipped. The log has a line for each table.",
    )


def _task_parameters(lake: LakeDag) -> dict[str, Any]:
    """Return what the task of one table and that of all tables have in common."""
    return {
        "strategy": "{{ params.strategy }}",
        **engine_parameters(lake),
        "proof": "{{ params.proof }}",
        **WINDOW,
        "lake_conn_id": CONNECTION,
        "skip_unsupported": True,
    }
