"""Compact again and again what others write to the tables of the lake. Airflow reads `lakecore.toml`
beside this file.
"""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("compactor", beside=__file__))
