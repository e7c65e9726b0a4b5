"""The DAGs whose tasks are killed: their units take minutes in the first try.

Airflow reads files that name it and a dag.
"""

from __future__ import annotations

from tests.support.slow_dags import compaction_dag, follow_dag

KILL = compaction_dag("slow_compaction", first_try_only=True, retries=2)
FOLLOW = follow_dag("slow_follow")
