"""This module has the report of a server of a query service, and its health and metrics by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lakecore.data_class import dataclass
from lakecore.service.server_metrics import (
    BOUNDS,
    Metric,
    ServerFigures,
    figures_metrics,
    joined_metrics,
    label,
    prometheus_text,
)
from lakecore.service.table_server import TableServer

__all__ = ["ServerReport", "health_of_servers", "metrics_of_servers", "report_metrics", "report_of"]

_STALE_TURNS = 3
_STALE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """This is the state of a server at one moment. Its JSON form goes from executors to the driver."""

    snapshot: int | None
    """It is the snapshot of the last refresh that succeeded; None while the table has none."""
    refreshed_ms: int
    """It is the time of that refresh, in milliseconds since 1970."""
    error: str | None
    """It is the reason why the last refresh failed; None where it succeeded."""
    disk_bytes: int
    memory_bytes: int
    figures: ServerFigures

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> ServerReport:
        """Read `to_json`'s values. Raises ValueError, TypeError or KeyError for others."""
        figures = dict(raw["figures"])
        latencies = tuple(int(count) for count in figures.pop("latencies"))
        if len(latencies) != len(BOUNDS) + 1:
            raise ValueError(f"{len(latencies)} counts of latencies")
        snapshot, error = raw["snapshot"], raw["error"]
        return cls(
            None if snapshot is None else int(snapshot),
            int(raw["refreshed_ms"]),
            None if error is None else str(error),
            int(raw["disk_bytes"]),
            int(raw["memory_bytes"]),
            ServerFigures(**figures, latencies=latencies),
        )

    def age_seconds(self, now_ms: int) -> float:
        """Return the time since the last refresh that succeeded."""
        return max(0.0, (now_ms - self.refreshed_ms) / 1000)

    def is_stale(self, now_ms: int, interval: float) -> bool:
        """Tell whether no refresh succeeded for three intervals of so many seconds, a minute at least."""
        return self.age_seconds(now_ms) > max(_STALE_TURNS * interval, _STALE_SECONDS)


def report_of(server: TableServer) -> ServerReport:
    """Return the report of a server as it is now."""
    state, (disk, memory) = server.state, server.local_bytes
    return ServerReport(state.snapshot, state.refreshed_ms, state.error, disk, memory, server.figures)


def health_of_servers(
    table: str, reports: Sequence[ServerReport | None], interval: float, now_ms: int
) -> dict[str, object]:
    """Return the health of a service as JSON values, with a line for each of its servers.

    `reports` has one element per server, None where there is none yet. `state` is `serving`; `starting` where
    a report is missing; `stale` where a server's refreshes fail, or its reports stopped. A stale server
    answers what it knows.
    """
    if any(report is None for report in reports):
        state = "starting"
    else:
        stale = any(report is not None and report.is_stale(now_ms, interval) for report in reports)
        state = "stale" if stale else "serving"
    lines = [
        None
        if report is None
        else {
            "snapshot": report.snapshot,
            "refreshed_seconds_ago": round(report.age_seconds(now_ms), 3),
            "error": report.error,
        }
        for report in reports
    ]
    return {"table": table, "state": state, "servers": lines}


def metrics_of_servers(table: str, reports: Sequence[ServerReport | None], now_ms: int) -> str:
    """Return the metrics of a service in the text format of Prometheus; samples have the label `server`."""
    metrics = {
        label("server", str(number)): report_metrics(report, now_ms)
        for number, report in enumerate(reports)
        if report is not None
    }
    up = Metric("servers", "gauge", "Servers that have reported.", (("", len(metrics)),))
    return prometheus_text((up, *joined_metrics(metrics)), label("table", table))


def report_metrics(report: ServerReport, now_ms: int) -> tuple[Metric, ...]:
    """Return the metrics of one server."""
    more = (
        ("snapshot", "Snapshot that is served.", report.snapshot or 0),
        ("refresh_age_seconds", "Time since the last refresh.", round(report.age_seconds(now_ms), 3)),
        ("local_disk_bytes", "Local copies of data files on disk.", report.disk_bytes),
        ("local_memory_bytes", "Blocks of local copies in memory.", report.memory_bytes),
    )
    gauges = (Metric(name, "gauge", text, (("", float(value)),)) for name, text, value in more)
    return (*figures_metrics(report.figures), *gauges)
