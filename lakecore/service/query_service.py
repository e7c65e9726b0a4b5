"""This module runs the query service of a table: a server that follows it, its addresses in the table, and
its health.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import field, replace

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError
from lakecore.service.addresses import Address
from lakecore.service.health_server import HealthServer
from lakecore.service.registration import Registration
from lakecore.service.remote_query import service_manager
from lakecore.service.server_metrics import ServerFigures, label, prometheus_text
from lakecore.service.server_options import ServerOptions
from lakecore.service.server_report import report_metrics, report_of
from lakecore.service.table_server import TableServer
from lakecore.table import Table

__all__ = ["ALL_ADDRESSES", "QueryService", "ServiceOptions"]

logger = logging.getLogger(__name__)

ALL_ADDRESSES = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """These are the options of a service."""

    server: ServerOptions = field(default_factory=ServerOptions)
    advertised_host: str | None = None
    """It is the name or address under which clients find the service; None: the one it listens on."""
    interval: float = 10.0
    """It is the time between two refreshes, in seconds."""
    health_port: int | None = None
    """The health and the metrics are served over HTTP at this port of the same host, 0 for a free one; None:
    they are not served.
    """
    replace: bool = False
    """It tells whether the service takes the place of one that still accepts connections."""

    def __post_init__(self) -> None:
        if not self.interval > 0:
            raise InvalidInputError(f"interval={self.interval}: must be more than 0 seconds")
        if self.server.host in ALL_ADDRESSES and not self.advertised_host:
            raise InvalidInputError(
                f"host {self.server.host!r} stands for all addresses of this machine: say by advertised_host "
                "under which of them clients find the service"
            )


class QueryService:
    """It serves one table until it is closed. One thread runs it."""

    def __init__(
        self, load: Callable[[], Table], options: ServiceOptions | None = None, clock: Clock | None = None
    ) -> None:
        """Load the table by `load`, which each refresh does again; nothing listens yet. Raises
        UnsupportedError for a table whose rows cannot be looked up.
        """
        self._options = options or ServiceOptions()
        self._clock = clock or SystemClock()
        self._identity = self._clock.fresh_id()
        server = replace(self._options.server, identity=self._identity)
        self._server = TableServer(load, self._clock, server)
        self._health = self._health_server()
        self._registration: Registration | None = None
        self._closed = False

    def __enter__(self) -> QueryService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def health_address(self) -> Address | None:
        """Return where the health is served; None where it is not."""
        return None if self._health is None else self._health.address

    def start(self) -> Address:
        """Read the latest snapshot, listen, and register the address, which is returned.

        Raises AlreadyExistsError where another service runs, UnavailableError where a port is taken.
        """
        bound = self._server.start()
        address = Address(self._options.advertised_host or bound.host, bound.port)
        table = self._server.table
        self._registration = Registration(table.name, service_manager(table), [address], self._identity)
        self._registration.register(replace=self._options.replace)
        if self._health is not None:
            self._health.start()
        return address

    def refresh(self) -> None:
        """Read the changes up to the latest snapshot, and check that the address is still registered. What
        fails is in `health`, and the next refresh tries it again.

        Raises AlreadyExistsError where another service has taken the place of this one, NotFoundError where
        the table does not exist any more.
        """
        if self._server.refresh() and not self._is_registered():
            raise AlreadyExistsError(
                f"table {self._server.table.name}: another query service has taken the place of this one"
            )

    def _is_registered(self) -> bool:
        try:
            return self._registration is None or self._registration.keep()
        except LakeError as err:
            logger.warning("the addresses of the query service cannot be checked: %s", err)
            return True

    def run(self, stop: threading.Event) -> None:
        """Run `refresh` every interval until `stop` is set. Raises what `refresh` does."""
        while not stop.wait(self._options.interval):
            self.refresh()

    @property
    def figures(self) -> ServerFigures:
        """Return what the server has done."""
        return self._server.figures

    def health(self) -> dict[str, object]:
        """Return the state as JSON values: `state` is `serving`, or `stale` where no refresh has succeeded
        for three intervals, a minute at least. A stale server answers what it knows.
        """
        report, now_ms = report_of(self._server), self._clock.now_ms()
        stale = report.is_stale(now_ms, self._options.interval)
        return {
            "table": self._server.table.name,
            "state": "stale" if stale else "serving",
            "snapshot": report.snapshot,
            "refreshed_seconds_ago": round(report.age_seconds(now_ms), 3),
            "error": report.error,
        }

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        metrics = report_metrics(report_of(self._server), self._clock.now_ms())
        return prometheus_text(metrics, label("table", self._server.table.name))

    def close(self) -> None:
        """Take the address out of the table, answer what was asked, and stop; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._registration is not None:
                self._registration.release()
        except LakeError as err:
            logger.warning("the address of the query service stays in the table: %s", err)
        finally:
            if self._health is not None:
                self._health.close()
            self._server.close()

    def _health_server(self) -> HealthServer | None:
        port = self._options.health_port
        if port is None:
            return None
        return HealthServer(Address(self._options.server.host, port), self._health_body, self.metrics)

    def _health_body(self) -> tuple[bool, str]:
        health = self.health()
        return health["state"] == "serving", json.dumps(health)
