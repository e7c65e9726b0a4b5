"""Run every night the chores that a policy has for each table; without a policy, only report. Airflow reads
`lakecore.toml` beside this file.
"""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("maintenance", beside=__file__))
