"""Wait for new data in tables, then run the tasks that depend on it. Airflow reads `lakecore.toml` beside
this file.
"""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("on_snapshot", beside=__file__))
