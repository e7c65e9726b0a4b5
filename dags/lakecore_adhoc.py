"""Do what a person asks for on a page of the lake, once. Airflow reads `lakecore.toml` beside this file."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("adhoc", beside=__file__))
