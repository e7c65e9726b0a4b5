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

from lakecore_airflow.airflow_names import airflow_stats

__all__ = ["count", "count_missed_deadline", "count_states"]

_COUNTERS = {
    "files": ("files", "files_in"),
    "bytes": ("bytes", "bytes_in"),
    "rows": ("rows", "rows_in"),
}


def count(job: str, report: Mapping[str, Any]) -> None:
    """Count one finished run: its duration, and what it removed or rewrote. A dry run is not counted."""
    if report.get("dry_run"):
        return
    tags = {"job": job, "table": str(report["table"])}
    airflow_stats().incr("lakecore.runs", tags=tags)
    airflow_stats().timing("lakecore.duration", float(report.get("seconds") or 0) * 1000, tags=tags)
    for name, keys in _COUNTERS.items():
        value = next((int(report[key]) for key in keys if report.get(key)), 0)
        if value:
            airflow_stats().incr(f"lakecore.{name}", value, tags=tags)
    snapshots = int(report.get("snapshots_count") or 0)
    if snapshots:
        airflow_stats().incr("lakecore.snapshots", snapshots, tags=tags)


def count_states(states: Mapping[str, int]) -> None:
    """Send the number of a lake's tables in each state."""
    for state, tables in states.items():
        airflow_stats().gauge("lakecore.tables", tables, tags={"state": state})


def count_missed_deadline(dag: str) -> None:
    """Count a run that missed the deadline of its DAG."""
    airflow_stats().incr("lakecore.deadlines_missed", tags={"dag": dag})
