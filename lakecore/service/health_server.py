"""This module serves `GET /health` and `GET /metrics` of a query service over HTTP."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from lakecore.clock import SystemClock
from lakecore.errors import UnavailableError
from lakecore.service.addresses import Address

__all__ = ["HealthServer"]

logger = logging.getLogger(__name__)

_REQUEST_SECONDS = 5.0
_MOST_CONNECTIONS = 16
"""Each connection has a thread; more of them at once are closed without an answer."""
Answer = Callable[[], tuple[bool, str]]
"""It returns whether all is well, and the body of the answer."""


class HealthServer:
    """It answers monitors in threads of its own, until it is closed. It tells other callers nothing.

    At most 16 connections are open at once, each for some five seconds, whatever a caller sends.
    """

    def __init__(self, address: Address, health: Answer, metrics: Callable[[], str]) -> None:
        """Take the port; `start` answers. `health` returns whether all is well, and the answer as JSON.

        Raises UnavailableError when the port is taken.
        """

        answers = {"/health": health, "/metrics": lambda: (True, metrics())}
        try:
            self._server = _Server((address.host, address.port), _Handler)
        except OSError as err:
            raise UnavailableError(
                f"health of the query service: port {address.port} of {address.host} cannot be used ({err}); "
                "choose another"
            ) from err
        self._server.answers = MappingProxyType(answers)
        host, port = self._server.server_address[:2]
        self.address = Address(str(host), int(port))
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="lakecore-health", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and release the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: Mapping[str, Answer] = MappingProxyType({})

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._opened: dict[socket.socket, float] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; close it where too many are open."""
        with self._lock:
            has_room = len(self._opened) < _MOST_CONNECTIONS
            if has_room:
                self._opened[request] = self._clock.monotonic()
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and count it no more."""
        with self._lock:
            self._opened.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that are open for too long: a caller may send a byte now and then. `serve_forever`
        calls it twice a second.
        """
        now = self._clock.monotonic()
        with self._lock:
            for request, opened in self._opened.items():
                if now - opened > _REQUEST_SECONDS:
                    _end(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Leave a broken connection to the log; by default it is printed."""
        logger.debug("a connection of the health server ended", exc_info=True)


def _end(connection: socket.socket) -> None:
    """Wake the thread that waits for a connection; it closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the caller has closed it already
        logger.debug("a connection of the health server has ended by itself")


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_SECONDS
    server_version = "lakecore"
    sys_version = ""
    server: _Server

    def do_GET(self) -> None:
        """Answer a path that is known."""
        answer = self.server.answers.get(self.path)
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        well, text = answer()
        data = text.encode()
        self.send_response(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE)
        plain = self.path == "/metrics"
        kind = "text/plain; version=0.0.4; charset=utf-8" if plain else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write to the log rather than to standard error."""
        logger.debug(format, *args)
