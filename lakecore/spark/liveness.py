"""This module has the connection by which long tasks know that their driver lives and wants them to go on.

Spark tells a Python worker neither that its job was cancelled nor that its driver died: it kills the worker,
which then cannot say goodbye to anybody. Each task opens a connection to the driver; when the driver closes
it, or dies, the task ends by itself.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import UnavailableError
from lakecore.service.addresses import Address

__all__ = ["DriverLiveness", "LivenessEndpoint", "TaskLiveness"]

_CONNECT_SECONDS = 10.0
_TOKEN_BYTES = 16
_LONGEST_REPORT = 64 << 10
"""It is in bytes; the connection of a task that sends more without a line end is closed."""


@dataclass(frozen=True, slots=True)
class LivenessEndpoint:
    """This is what a task needs to connect."""

    address: Address
    token: bytes = field(repr=False)


class DriverLiveness:
    """It is the driver's side: tasks that know the token are connected until `close`, and send reports."""

    def __init__(self, host: str, on_report: Callable[[str], None]) -> None:
        """Listen at a free port of this host. `on_report` gets each line that a task sends, in a thread of
        that task's connection. Raises UnavailableError.
        """
        try:
            self._server = socket.create_server((host, 0))
        except OSError as err:
            raise UnavailableError(
                f"the driver cannot listen on {host} ({err}); check spark.driver.host"
            ) from err
        self.endpoint = LivenessEndpoint(
            Address(host, self._server.getsockname()[1]), secrets.token_bytes(_TOKEN_BYTES)
        )
        """Tasks connect with it."""
        self._on_report = on_report
        self._tasks: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, name="lakecore-liveness", daemon=True).start()

    def close(self) -> None:
        """Let all tasks end; later calls do nothing."""
        with self._lock:
            self._closed = True
            tasks, self._tasks = self._tasks, set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
        self._server.close()
        for task in tasks:
            with contextlib.suppress(OSError):
                # a thread reads from it: closing alone would not reach the task
                task.shutdown(socket.SHUT_RDWR)
            task.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                task, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._admit, args=(task,), daemon=True).start()

    def _admit(self, task: socket.socket) -> None:
        """Keep a connection that sends the token, and read the reports of its task; close all others."""
        sent = b""
        with contextlib.suppress(OSError):
            task.settimeout(_CONNECT_SECONDS)
            while len(sent) < _TOKEN_BYTES and (part := task.recv(_TOKEN_BYTES - len(sent))):
                sent += part
        with self._lock:
            admitted = not self._closed and hmac.compare_digest(sent, self.endpoint.token)
            if admitted:
                self._tasks.add(task)
        if not admitted:
            task.close()
            return
        with contextlib.suppress(OSError):
            task.settimeout(None)
            self._read_reports(task)

    def _read_reports(self, task: socket.socket) -> None:
        text = b""
        while part := task.recv(_LONGEST_REPORT):
            *lines, text = (text + part).split(b"\n")
            if max(map(len, (*lines, text))) > _LONGEST_REPORT:
                task.shutdown(socket.SHUT_RDWR)
                return
            for line in lines:
                self._on_report(line.decode("utf-8", "replace"))


class TaskLiveness:
    """It is a task's side."""

    def __init__(self, end: LivenessEndpoint) -> None:
        """Connect to the driver. Raises UnavailableError."""
        place = (end.address.host, end.address.port)
        try:
            self._socket = socket.create_connection(place, _CONNECT_SECONDS)
            self._socket.sendall(end.token)
        except OSError as err:
            raise UnavailableError(
                f"the driver at {end.address} cannot be reached ({err}); check spark.driver.host"
            ) from err

    def wait(self, seconds: float) -> bool:
        """Wait so long; return early, and True, when the driver has ended or wants the task to end."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def report(self, line: str) -> None:
        """Send a line to the driver, without its line end. A driver that has ended is noticed by `wait`."""
        with contextlib.suppress(OSError):
            self._socket.sendall(line.encode() + b"\n")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
