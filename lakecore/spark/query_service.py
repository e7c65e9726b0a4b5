"""This module runs the query service of a table on the executors of Spark: one server a task.

The tasks are those of a barrier stage: all run at once, exchange their addresses, and the first one registers
them in the table. Each server follows the table and has its own buckets. When a task is lost, Spark ends the
whole stage, the driver starts another one, and clients find the new addresses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from lakecore.catalog.catalog import Catalog
from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, LakeError, UnavailableError
from lakecore.service.addresses import Address, parse_address
from lakecore.service.health_server import HealthServer
from lakecore.service.registration import Registration
from lakecore.service.remote_query import service_manager
from lakecore.service.server import ServerNumber
from lakecore.service.servers_options import ServersOptions
from lakecore.service.service_reports import ServiceReports, error_line, report_line
from lakecore.service.table_server import TableServer
from lakecore.spark.liveness import DriverLiveness, LivenessEndpoint, TaskLiveness

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["serve_on_spark"]

logger = logging.getLogger(__name__)

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LOOK_SECONDS = 0.2
_STABLE_SECONDS = 60.0
_MOST_LOSSES = 4
"""A service that loses servers so often, each time in less than a minute, ends."""


@dataclass(frozen=True, slots=True)
class _Service:
    """It says what is served."""

    lake: Catalog
    table: str
    options: ServersOptions
    replace: bool


@dataclass(frozen=True, slots=True)
class _ServerTask:
    """It is pickled to the executors."""

    service: _Service
    driver: LivenessEndpoint

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """Serve until the driver ends; yield nothing."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        number = context.partitionId()
        service, options = self.service, self.service.options
        server = TableServer(
            lambda: service.lake.load_table(service.table),
            SystemClock(),
            options.server,
            ServerNumber(number, options.servers),
        )
        liveness: TaskLiveness | None = None
        registration: Registration | None = None
        try:
            liveness = TaskLiveness(self.driver)
            bound = server.start()
            host = bound.host
            if host not in _LOOPBACK:
                host = context.getTaskInfos()[number].address.rpartition(":")[0]
            gathered_addresses = context.allGather(str(Address(host, bound.port)))
            if number == 0:
                addresses = [parse_address(text) for text in gathered_addresses]
                manager = service_manager(server.table)
                identity = options.server.identity
                registration = Registration(server.table.name, manager, addresses, identity)
                registration.register(replace=service.replace)
            liveness.report(report_line(number, server, SystemClock()))
            self._follow(number, server, liveness, registration)
        except LakeError as err:
            if liveness is not None:
                liveness.report(error_line(err))
            raise
        finally:
            if registration is not None:
                _release(registration)
            server.close()
            if liveness is not None:
                liveness.close()
        yield from ()

    def _follow(
        self, number: int, server: TableServer, liveness: TaskLiveness, registration: Registration | None
    ) -> None:
        """Refresh and report until the driver ends. Raises AlreadyExistsError where another service took the
        place.
        """
        while not liveness.wait(self.service.options.interval):
            is_fresh = server.refresh()
            liveness.report(report_line(number, server, SystemClock()))
            if is_fresh and registration is not None and not registration.keep():
                raise AlreadyExistsError(
                    f"table {self.service.table}: another query service has taken the place of this one"
                )


def serve_on_spark(
    spark: SparkContext,
    lake: Catalog,
    table: str,
    options: ServersOptions,
    stop: threading.Event,
    on_health: Callable[[Address], None] = lambda _: None,
) -> None:
    """Run the servers of a table on executors until `stop` is set; they end after what was asked.

    Where servers listen on all addresses of their machines (host 0.0.0.0), clients find them under the names
    of the executors' hosts. `on_health` gets the address of the health once it is served. Each server reads
    the manifests of the table, and copies the data files of its buckets that are asked for to the local disk
    of its executor. Raises InvalidInputError where Spark has too few cores, UnavailableError where the port
    of the health is taken, and what a server raises.
    """
    clock = SystemClock()
    loaded = lake.load_table(table)
    if options.servers > spark.defaultParallelism and spark.master.startswith("local"):
        raise InvalidInputError(
            f"servers={options.servers}: the Spark session has {spark.defaultParallelism} cores, and each "
            "server needs one; request fewer servers, or more cores"
        )
    options = replace(options, server=replace(options.server, identity=clock.fresh_id()))
    if not options.replace:
        Registration(loaded.name, service_manager(loaded), ()).check()
    reports = ServiceReports(table, options.servers, options.interval, clock)
    with ExitStack() as stack:
        if options.health is not None:
            health = HealthServer(options.health, reports.health, reports.metrics)
            stack.callback(health.close)
            health.start()
            on_health(health.address)
        _serve_until(spark, _Service(lake, table, options, replace=options.replace), reports, stop)


def _serve_until(
    spark: SparkContext, service: _Service, reports: ServiceReports, stop: threading.Event
) -> None:
    """Run the servers until `stop` is set, again when one of them is lost. Raises UnavailableError."""
    clock, table, losses = SystemClock(), service.table, 0
    while not stop.is_set():
        started = clock.monotonic()
        reports.restart()
        failure = _serve_once(spark, replace(service, replace=service.replace or losses > 0), reports, stop)
        if failure is None:
            return
        if failure.error is not None:
            raise UnavailableError(
                f"table {table}: the query service on Spark has ended: {failure.error}"
            ) from failure.cause
        losses = losses + 1 if clock.monotonic() - started < _STABLE_SECONDS else 1
        if losses >= _MOST_LOSSES:
            raise UnavailableError(
                f"table {table}: the query service lost a server {losses} times in a row; see the log of "
                "Spark for the reasons"
            ) from failure.cause
        logger.warning(
            "table %s: the query service lost a server and is started again: %s", table, failure.cause
        )


@dataclass(frozen=True, slots=True)
class _Failure:
    """It is the end of the servers before they were stopped."""

    cause: BaseException
    error: str | None
    """It is the error of lakecore that a server raised; None where Spark lost a task."""


def _serve_once(
    spark: SparkContext, service: _Service, reports: ServiceReports, stop: threading.Event
) -> _Failure | None:
    """Run the servers until `stop` is set, or one of them is lost or raises; return the failure, if any."""
    liveness = DriverLiveness(str(spark.getConf().get("spark.driver.host", "127.0.0.1")), reports.take)
    servers = service.options.servers
    numbers = spark.parallelize(range(servers), servers).barrier()
    with ThreadPoolExecutor(1, "lakecore-query-service") as pool:
        job = pool.submit(numbers.mapPartitions(_ServerTask(service, liveness.endpoint)).collect)
        try:
            while not job.done() and not stop.wait(_LOOK_SECONDS):
                pass
            if job.done():
                stop.wait(_LOOK_SECONDS)  # the report of an error may be on its way
        finally:
            liveness.close()
        cause = job.exception()
        return None if cause is None else _Failure(cause, reports.first_error or _own_error(cause))


def _release(registration: Registration) -> None:
    try:
        registration.release()
    except LakeError as err:
        logger.warning("the addresses of the query service stay in the table: %s", err)


def _own_error(failure: BaseException) -> str | None:
    """Return the error of lakecore that a server raised; None where Spark lost a task."""
    lines = [line.strip() for line in str(failure).splitlines()]
    return next((line for line in lines if line.startswith("lakecore.errors.")), None)
