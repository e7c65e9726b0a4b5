"""Compact the partition of a run's logical date in each table that has one. Airflow reads `lakecore.toml`
beside this file.
"""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("partition", beside=__file__))
