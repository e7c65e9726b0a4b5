"""Start a run when one of several tables has new data. Airflow reads `lakecore.toml` beside this file."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("on_asset", beside=__file__))
