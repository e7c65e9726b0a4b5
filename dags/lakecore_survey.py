"""Look every hour at all tables of the lake, and store how healthy they are. Airflow reads
`lakecore.toml` beside this file.
"""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags

globals().update(lakecore_dags("survey", beside=__file__))
