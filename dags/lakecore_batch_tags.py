"""Tag each table for every complete day. Airflow reads `lakecore.toml` beside this file."""

from __future__ import annotations

from operators.dags import lakecore_dags

globals().update(lakecore_dags("batch_tags", beside=__file__))
