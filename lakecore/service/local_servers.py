"""This module runs the query service of a table in several processes of this machine: each serves the buckets
that are its own, as Paimon's servers do, so that a table with one bucket is served by one core.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field, replace

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, UnavailableError
from lakecore.lookup.query.serialized_query import SerializedQuery
from lakecore.service.addresses import Address
from lakecore.service.health_server import HealthServer
from lakecore.service.query_service import ALL_ADDRESSES
from lakecore.service.registration import Registration
from lakecore.service.remote_query import service_manager
from lakecore.service.server import ServerNumber
from lakecore.service.server_process import ServerProcess, ServerTask
from lakecore.service.servers_options import ServersOptions
from lakecore.service.service_reports import ServiceReports
from lakecore.table import Table

__all__ = ["OnStart", "serve_in_processes"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_STABLE_SECONDS = 60.0
_MOST_LOSSES = 4
"""A service that loses so many servers within a minute ends."""

OnStart = Callable[[Sequence[Address], Address | None], None]
"""It gets the addresses of the servers, and that of the health where it is served."""


def serve_in_processes(
    load: Callable[[], Table],
    options: ServersOptions,
    stop: threading.Event,
    on_start: OnStart = lambda *_: None,
    advertised_host: str | None = None,
) -> None:
    """Run the servers of a table in processes until `stop` is set; they end after what was asked.

    A process that ends is started again. `load` is pickled. Clients find the servers under
    `advertised_host`, None: where they listen. Raises UnsupportedError for a table whose rows cannot be
    looked up, AlreadyExistsError where another service runs or has taken the place of this one,
    UnavailableError where a port is taken or servers end again and again.
    """
    if options.server.host in ALL_ADDRESSES and not advertised_host:
        raise InvalidInputError(
            f"host {options.server.host!r} stands for all addresses of this machine: say by advertised_host "
            "under which of them clients find the service"
        )
    table, clock = load(), SystemClock()
    SerializedQuery(table).close()
    reports = ServiceReports(table.name, options.servers, options.interval, clock)
    options = replace(options, server=replace(options.server, identity=clock.fresh_id()))
    service = _Service(table, load, options, advertised_host, reports, clock)
    with ExitStack() as stack:
        stack.callback(service.close)
        if not options.replace:
            Registration(table.name, service_manager(table), ()).check()
        health: HealthServer | None = None
        if options.health is not None:
            health = HealthServer(options.health, reports.health, reports.metrics)
            stack.callback(health.close)
            health.start()
        on_start(service.start(), None if health is None else health.address)
        service.run(stop)


@dataclass
class _Service:
    """It is the service while it runs."""

    table: Table
    load: Callable[[], Table]
    options: ServersOptions
    advertised_host: str | None
    reports: ServiceReports
    clock: Clock
    processes: list[ServerProcess] = field(default_factory=list)
    addresses: list[Address] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    registration: Registration | None = None

    def start(self) -> Sequence[Address]:
        """Start all servers and register them; return their addresses."""
        self.processes = [self._process(number) for number in range(self.options.servers)]
        self.addresses = [self._address(process) for process in self.processes]
        self._register(replace=self.options.replace)
        return self.addresses

    def run(self, stop: threading.Event) -> None:
        """Look after the servers until `stop` is set."""
        checked = self.clock.monotonic()
        while not stop.wait(_LOOK_SECONDS):
            for number, process in enumerate(self.processes):
                for line in process.reports():
                    self.reports.take(line)
                if self.reports.first_error is not None:
                    raise UnavailableError(
                        f"table {self.table.name}: the query service has ended: {self.reports.first_error}"
                    )
                if process.ended:
                    self._start_again(number)
            if self.clock.monotonic() - checked >= self.options.interval:
                checked = self.clock.monotonic()
                self._check_place()

    def close(self) -> None:
        """Take the addresses out of the table, and end the servers."""
        try:
            if self.registration is not None:
                self.registration.release()
        except LakeError as err:
            logger.warning("the addresses of the query service stay in the table: %s", err)
        finally:
            for process in self.processes:
                process.close()

    def _start_again(self, number: int) -> None:
        now = self.clock.monotonic()
        self.losses = [*(time for time in self.losses if now - time < _STABLE_SECONDS), now]
        if len(self.losses) >= _MOST_LOSSES:
            raise UnavailableError(
                f"table {self.table.name}: the query service lost a server {len(self.losses)} times within a "
                "minute; look whether something kills its processes"
            )
        logger.warning("table %s: server %d has ended and is started again", self.table.name, number)
        self.processes[number].close()
        self.processes[number] = self._process(number)
        self.addresses[number] = self._address(self.processes[number])
        self._check_place()
        self._register(replace=True)

    def _check_place(self) -> None:
        """Raise AlreadyExistsError where another service has taken the place of this one."""
        try:
            if self.registration is None or self.registration.keep():
                return
        except LakeError as err:
            logger.warning("the addresses of the query service cannot be checked: %s", err)
            return
        raise AlreadyExistsError(
            f"table {self.table.name}: another query service has taken the place of this one"
        )

    def _register(self, *, replace: bool) -> None:
        manager, identity = service_manager(self.table), self.options.server.identity
        registration = Registration(self.table.name, manager, self.addresses, identity)
        registration.register(replace=replace)
        self.registration = registration

    def _process(self, number: int) -> ServerProcess:
        options = self.options
        server = ServerNumber(number, options.servers)
        return ServerProcess(ServerTask(self.load, options.server, server, options.interval))

    def _address(self, process: ServerProcess) -> Address:
        bound = process.address()
        return Address(self.advertised_host or bound.host, bound.port)
