"""Tag each table for every complete day. Airflow reads `lakecore.toml` beside this file."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("batch_tags", beside=__file__))
