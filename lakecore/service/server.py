"""This module has the server of a query service: it answers lookups in the buckets that are its own.

One thread reads and writes all connections (see `server_connection`), a few others look up what is not in
memory.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.location import server_of
from lakecore.service.server_connection import RowQuery, ServerConnection, ServerContext
from lakecore.service.server_metrics import ServerFigures, ServerMetrics
from lakecore.service.server_options import ServerOptions
from lakecore.service.socket_loop import Channel, SocketLoop

__all__ = ["KvQueryServer", "ServerNumber"]

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0
"""So long a server that is closed waits for the lookups that have begun."""
_LONGEST_SWEEP = 1.0
_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class ServerNumber:
    """This is a server's number among the servers of a table, from 0."""

    number: int = 0
    servers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.servers:
            raise InvalidInputError(f"server {self.number} of {self.servers}: numbers begin with 0")

    def owns(self, partition: bytes, bucket: int) -> bool:
        """Tell whether a bucket is this server's; `partition` is a serialised row."""
        return self.servers == 1 or server_of(partition, bucket, self.servers) == self.number


class KvQueryServer:
    """It serves one table until it is closed. Bytes in memory: a frame and an answer for each connection."""

    def __init__(
        self, query: RowQuery, number: ServerNumber | None = None, options: ServerOptions | None = None
    ) -> None:
        """Prepare a server; `start` listens. The query stays the caller's, who closes it last."""
        self.query = query
        """It answers requests; it may be replaced while the server runs."""
        number, options = number or ServerNumber(), options or ServerOptions()
        self._options = options
        self._metrics = ServerMetrics()
        self._pool = ThreadPoolExecutor(options.query_threads, "lakecore-query")
        self._connections: set[ServerConnection] = set()
        self._context = ServerContext(
            query=lambda: self.query,
            own=number.owns,
            options=options,
            metrics=self._metrics,
            pool=self._pool,
            submit=lambda work: self._loop.submit(work),
            connections=self._connections,
        )
        pause = min(_LONGEST_SWEEP, options.frame_seconds / 4, options.idle_seconds / 4)
        self._loop = SocketLoop(self._accept, self._sweep, pause)
        self._closed = False

    def __enter__(self) -> KvQueryServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def figures(self) -> ServerFigures:
        """Return what the server has done since it was made."""
        return self._metrics.figures()

    def start(self) -> Address:
        """Return the address after the server listens. Raises UnavailableError when the port is taken."""
        options = self._options
        try:
            return Address(*self._loop.start(options.host, options.port))
        except OSError as err:
            self.close()
            raise UnavailableError(
                f"query server: port {options.port} of {options.host} cannot be used ({err}); choose another"
            ) from err

    def close(self) -> None:
        """Stop listening, answer what was asked, and close all connections; later calls do nothing.

        Lookups that take longer than 5 s find their connections closed.
        """
        if self._closed:
            return
        self._closed = True
        self._loop.submit(self._drain)
        end = time.monotonic() + _DRAIN_SECONDS
        while self._connections and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        self._loop.close()
        self._pool.shutdown(wait=True)

    def _accept(self, channel: Channel) -> ServerConnection | None:
        """Accept a connection unless there are too many."""
        if len(self._connections) >= self._options.max_connections:
            self._metrics.count_refusal()
            return None
        connection = ServerConnection(self._context, channel)
        self._connections.add(connection)
        self._metrics.count_connection(1)
        return connection

    def _sweep(self) -> None:
        """Close the connections whose time is over."""
        now = time.monotonic()
        for connection in tuple(self._connections):
            if connection.deadline < now:
                connection.expire()

    def _drain(self) -> None:
        """Accept no more connections, and let each end after what was asked."""
        self._loop.stop_accept()
        for connection in tuple(self._connections):
            connection.drain()
