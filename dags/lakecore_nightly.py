"""Compact every night the tables of the lake that need it. Airflow reads `lakecore.toml` beside this file."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("nightly", beside=__file__))
