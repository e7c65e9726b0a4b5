"""A compaction that is killed by hand, in a DAG of Airflow."""

from __future__ import annotations

from tests.support.slow_dags import compaction_dag

SLOW = compaction_dag("lakecore_slow", first_try_only=False, retries=0)
