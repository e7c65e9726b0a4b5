"""This module has the server of a query service: it answers lookups in the buckets that are its own.

One thread reads and writes all connections (see `server_connection`), a few others look up what is not in
memory.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.location import server_of
from lakecore.service.server_connection import RowQuery, ServerConnection, ServerContext
from lakecore.service.server_metrics import ServerFigures, ServerMetrics
from lakecore.service.server_options import ServerOptions

__all__ = ["KvQueryServer", "ServerNumber"]

logger = logging.getLogger(__name__)

_START_SECONDS = 30.0
_DRAIN_SECONDS = 5.0
"""So long a server that is closed waits for the lookups that have begun."""
_LONGEST_SWEEP = 1.0


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
            connections=self._connections,
        )
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lakecore-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None
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
        self._thread.start()
        try:
            listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
            self._server = listening.result(_START_SECONDS)
        except OSError as err:
            self.close()
            options = self._options
            raise UnavailableError(
                f"query server: port {options.port} of {options.host} cannot be used ({err}); choose another"
            ) from err
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def close(self) -> None:
        """Stop listening, answer what was asked, and close all connections; later calls do nothing.

        Lookups that take longer than 5 s find their connections closed.
        """
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._pool.shutdown(wait=True)

    async def _listen(self) -> asyncio.Server:
        server = await self._loop.create_server(
            lambda: ServerConnection(self._context, self._loop), self._options.host, self._options.port
        )
        self._sweeping = self._loop.create_task(self._sweep())
        return server

    async def _sweep(self) -> None:
        """Close the connections whose time is over, now and then."""
        pause = min(_LONGEST_SWEEP, self._options.frame_seconds / 4, self._options.idle_seconds / 4)
        while True:
            await asyncio.sleep(pause)
            now = time.monotonic()
            for connection in tuple(self._connections):
                if connection.deadline < now:
                    connection.expire()

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.drain()
        end = time.monotonic() + _DRAIN_SECONDS
        while self._connections and time.monotonic() < end:
            await asyncio.sleep(0.01)
        for connection in tuple(self._connections):
            connection.abort()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.sleep(0)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where that is installed (the extra `service`): a request takes about a quarter
    less CPU time with it.
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
