"""This module has what the servers of a query service on Spark report to their driver, and its health."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace

from lakecore.clock import Clock
from lakecore.service.server_report import (
    ServerReport,
    health_of_servers,
    metrics_of_servers,
    report_of,
)
from lakecore.service.table_server import TableServer

__all__ = ["ServiceReports", "error_line", "report_line"]

logger = logging.getLogger(__name__)

_LONGEST_ERROR = 4096


def report_line(number: int, server: TableServer, clock: Clock) -> str:
    """Return the report of server `number` as a line."""
    report = report_of(server)
    if report.error is not None:
        report = replace(report, error=report.error[:_LONGEST_ERROR])
    return json.dumps({"server": number, "sent_ms": clock.now_ms(), "report": report.to_json()})


def error_line(err: Exception) -> str:
    """Return the error that ends a server as a line."""
    return json.dumps({"error": f"{type(err).__name__}: {err}"[:_LONGEST_ERROR]})


class ServiceReports:
    """It has the last report of each server, and the errors that ended servers. Many threads may use it."""

    def __init__(self, table: str, servers: int, interval: float, clock: Clock) -> None:
        """Prepare for so many servers, which refresh every `interval` seconds."""
        self._table = table
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: list[ServerReport | None] = [None] * servers
        self._errors: list[str] = []

    def take(self, line: str) -> None:
        """Take a line of a server. Times of another machine's clock become times of this one."""
        try:
            raw = json.loads(line)
            if "error" in raw:
                with self._lock:
                    self._errors.append(str(raw["error"]))
                return
            number, report = int(raw["server"]), ServerReport.from_json(raw["report"])
            shift = self._clock.now_ms() - int(raw["sent_ms"])
            report = replace(report, refreshed_ms=report.refreshed_ms + shift)
            if number < 0:
                raise ValueError(f"server {number}")
            with self._lock:
                self._reports[number] = report
        except (ValueError, TypeError, KeyError, IndexError) as err:
            logger.warning("a report of a server of table %s cannot be read: %s", self._table, err)

    def restart(self) -> None:
        """Forget the reports: the servers are started again."""
        with self._lock:
            self._reports = [None] * len(self._reports)
            self._errors = []

    @property
    def first_error(self) -> str | None:
        """Return the error that came first; None where no server has reported one."""
        with self._lock:
            return next(iter(self._errors), None)

    def health(self) -> tuple[bool, str]:
        """Return whether all servers follow the table, and the health as JSON."""
        with self._lock:
            reports = tuple(self._reports)
        health = health_of_servers(self._table, reports, self._interval, self._clock.now_ms())
        return health["state"] == "serving", json.dumps(health)

    def metrics(self) -> str:
        """Return the metrics of all servers, as of their last reports, in the text format of Prometheus."""
        with self._lock:
            reports = tuple(self._reports)
        return metrics_of_servers(self._table, reports, self._clock.now_ms())
