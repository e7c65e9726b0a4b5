"""This module has the DAG that looks at all tables of the lake every hour, for the page *Lake* and for
`lakecore health`.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from lakecore_airflow.dags.parts import CONNECTION, DEADLINE_DEFAULTS, LakeDag
from lakecore_airflow.lake.survey import SurveyOperator

__all__ = ["DEFAULTS", "build"]

DEFAULTS = {
    **DEADLINE_DEFAULTS,
    "schedule": "17 * * * *",
    "including_databases": ".*",
    "including_tables": ".*",
    "excluding_tables": "",
    "history": True,
}

DOC = """
This DAG looks at each table of the lake and stores how healthy it is: files, sorted runs, small files,
deleted rows, snapshots, holds, a score, and what took points from it. It changes no table; it writes
`<warehouse>/.lakecore/survey` alone.

* The page *Lake* shows the newest survey, and `lakecore health` lists it, the worst table first.
* A table that did not change since the last survey costs a few small reads.
* A table that cannot be read is a line of the survey, and the others are looked at all the same.

The table `[airflow.survey]` of `lakecore.toml` has the defaults of the params, and `schedule`.
"""


def build(lake: LakeDag) -> DAG:
    """Return the DAG."""
    settings = lake.settings
    patterns = {
        "including_databases": "Only databases whose whole name matches this regular expression.",
        "including_tables": "Only tables whose database.table matches this one.",
        "excluding_tables": "Exclude tables whose database.table matches this one. Empty: none.",
    }
    params = {
        **{
            name: Param(settings[name] or None, type=["null", "string"], description=text)
            for name, text in patterns.items()
        },
        "history": Param(
            settings["history"],
            type="boolean",
            description="Also add up the bytes that only older snapshots need: two reads for each snapshot.",
        ),
    }
    with lake.open(
        params,
        description="Look at every table of the lake: how healthy it is.",
        tags=["lakecore", "survey"],
        doc_md=DOC,
    ) as dag:
        SurveyOperator(
            task_id="survey",
            **{name: f"{{{{ params.{name} or '{_default(name)}' }}}}" for name in patterns},
            history="{{ params.history }}",
            lake_conn_id=CONNECTION,
            doc_md="Looks at the tables. The XCom `return_value` has the number of tables in each state.",
        )
    return dag


def _default(name: str) -> str:
    return "" if name == "excluding_tables" else ".*"
