"""The DAG `lakecore_nightly` as it comes with lakecore, with one task for each table and with one for the whole lake."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

_NO_SCHEDULE = {"schedule": "", "until": ""}
"""Airflow would begin with the run of last night."""

globals().update(
    lakecore_dags("nightly", settings={"nightly": _NO_SCHEDULE}, conn_ids=["lake_default"])
    | lakecore_dags(
        "nightly", settings={"nightly": {**_NO_SCHEDULE, "one_task_for": "lake"}}, conn_ids=["one_task"]
    )
)
