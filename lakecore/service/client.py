"""This module has the client of query services: it asks the server of a bucket.

It follows servers that move: after a failure it reads their addresses again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lakecore.clock import Clock, SystemClock
from lakecore.errors import CorruptDataError, InvalidInputError, UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.connection import ClientOptions, Connection
from lakecore.service.location import server_of
from lakecore.service.wire.frames import FrameType
from lakecore.service.wire.java_failures import UNKNOWN_BUCKET, failure_class
from lakecore.service.wire.messages import LookupRequest, decode_result, encode_request

__all__ = ["KvQueryClient", "Locate"]

Locate = Callable[[], tuple[Address, ...] | None]
"""It reads the current addresses; None where no service runs."""
Identify = Callable[[Sequence[Address]], str]
"""It reads the identity of the service with these addresses; empty where it has none."""


class KvQueryClient:
    """It asks the servers of one table. Many threads may use it; each server has one connection."""

    def __init__(
        self,
        locate: Locate,
        options: ClientOptions | None = None,
        clock: Clock | None = None,
        identify: Identify = lambda _: "",
    ) -> None:
        """Prepare a client; nothing is read and nobody is asked."""
        self._locate = locate
        self._identify = identify
        self._identity = ""
        self._options = options or ClientOptions()
        self._clock = clock or SystemClock()
        self._addresses: tuple[Address, ...] | None = None
        self._connections: dict[Address, Connection] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(self._options.threads, "lakecore-client")
        self._closed = False

    def __enter__(self) -> KvQueryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_values(self, request: LookupRequest) -> Future[tuple[bytes | None, ...]]:
        """Ask for many keys of one bucket in the background.

        The future has a serialised row for each key, None without one. It fails as `ask` does.
        """
        return self._pool.submit(self.ask, request)

    def ask(self, request: LookupRequest) -> tuple[bytes | None, ...]:
        """Ask and wait. When a server is gone or has other buckets now, addresses are read again.

        Raises UnavailableError when no try is left or the server failed, CorruptDataError for a false answer.
        """
        last: UnavailableError | None = None
        for attempt in range(self._options.tries):
            if attempt:
                self._clock.sleep(
                    min(self._options.first_wait * 2.0 ** min(attempt - 1, 60), self._options.longest_wait)
                )
            try:
                answer = self._ask_once(request, again=attempt > 0)
            except UnavailableError as err:
                last = err
                continue
            if answer is not None:
                return answer
        tries = self._options.tries
        reason = last or "no server has the bucket"
        raise UnavailableError(f"bucket {request.bucket}: no answer in {tries} tries: {reason}") from last

    def close(self) -> None:
        """Close all connections; requests that wait fail."""
        with self._lock:
            self._closed = True
            connections = tuple(self._connections.values())
            self._connections = {}
        for connection in connections:
            connection.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _ask_once(self, request: LookupRequest, again: bool) -> tuple[bytes | None, ...] | None:
        """Return the values; None where the server does not have the bucket."""
        address = self._address(request, again)
        frame = self._connection(address).ask(encode_request(request))
        peer = f"query server {address}"
        if frame.type is FrameType.RESULT:
            values = decode_result(frame.body, peer)
            if len(values) != len(request.keys):
                problem = f"it answered {len(values)} values to {len(request.keys)} keys"
                raise CorruptDataError(peer, problem)
            return values
        kind = failure_class(frame.body)
        if kind == UNKNOWN_BUCKET.name:
            return None
        raise UnavailableError(f"{peer}: the lookup failed ({kind or 'unknown'}); see the log of the server")

    def _address(self, request: LookupRequest, again: bool) -> Address:
        with self._lock:
            addresses = None if again else self._addresses
        if addresses is None:
            addresses, identity = self._read_addresses()
            with self._lock:
                self._addresses, self._identity = addresses, identity
        if addresses is None:
            raise UnavailableError("no query service is registered in the table; start one")
        return addresses[server_of(request.partition, request.bucket, len(addresses))]

    def _read_addresses(self) -> tuple[tuple[Address, ...] | None, str]:
        """Read the addresses and the identity. Java may leave a file half written for a moment: it is read
        again.
        """
        try:
            addresses = self._locate()
            return addresses, self._identify(addresses) if addresses else ""
        except CorruptDataError as err:
            raise UnavailableError(f"the addresses of the query service cannot be read: {err}") from err

    def _connection(self, address: Address) -> Connection:
        with self._lock:
            if self._closed:
                raise InvalidInputError("the client of the query service is closed; create a new one")
            connection = self._connections.get(address)
            if connection is None or connection.ended:
                connection = self._connections[address] = Connection(address, self._options, self._identity)
            return connection
