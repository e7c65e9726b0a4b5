"""This module reports the figures of finished tasks as Airflow's own metrics, for StatsD, Datadog or
OpenTelemetry.

There are the counters `lakecore.runs`, `.files`, `.bytes`, `.rows`, `.snapshots` and the timer
`lakecore.duration`, each with the tags `job` and `table`, and the gauge `lakecore.tables` with the tag
`state`. A run that misses the deadline of its DAG counts in `lakecore.deadlines_missed`, with the tag `dag`.
Nothing is sent while Airflow's metrics are off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["count", "count_missed_deadline", "count_states"]

_COUNTERS = {
    "files": ("files", "files_in"),
    "bytes": ("bytes", "bytes_in"),
    "rows": ("rows", "rows_in"),
}


def count(job: str, report: Mapping[str, Any]) -> None:
    """Count one finished run: its duration, and what it removed or rewrote. A dry run is not counted."""
    from airflow.sdk.observability import stats

    if report.get("dry_run"):
        return
    tags = {"job": job, "table": str(report["table"])}
    stats.incr("lakecore.runs", tags=tags)
    stats.timing("lakecore.duration", float(report.get("seconds") or 0) * 1000, tags=tags)
    for name, keys in _COUNTERS.items():
        value = next((int(report[key]) for key in keys if report.get(key)), 0)
        if value:
            stats.incr(f"lakecore.{name}", value, tags=tags)
    snapshots = int(report.get("snapshots_count") or 0)
    if snapshots:
        stats.incr("lakecore.snapshots", snapshots, tags=tags)


def count_states(states: Mapping[str, int]) -> None:
    """Send the number of a lake's tables in each state."""
    from airflow.sdk.observability import stats

    for state, tables in states.items():
        stats.gauge("lakecore.tables", tables, tags={"state": state})


def count_missed_deadline(dag: str) -> None:
    """Count a run that missed the deadline of its DAG."""
    from airflow.sdk.observability import stats

    stats.incr("lakecore.deadlines_missed", tags={"dag": dag})
