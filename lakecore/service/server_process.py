"""This module has one server of a query service in a process of its own.

The process that started it holds one end of a pipe: it gets the address of the server and its reports, and
the server ends when the pipe is closed, also because that process was killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnavailableError
from lakecore.service.addresses import Address, parse_address
from lakecore.service.server import ServerNumber
from lakecore.service.server_options import ServerOptions
from lakecore.service.service_reports import error_line, report_line
from lakecore.service.table_server import TableServer
from lakecore.table import Table

__all__ = ["ServerProcess", "ServerTask"]

_START_SECONDS = 120.0
_END_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ServerTask:
    """It says what a process serves; it is pickled."""

    load: Callable[[], Table]
    options: ServerOptions
    number: ServerNumber
    interval: float
    """It is the time between two refreshes, in seconds."""


class ServerProcess:
    """It is a server, as the process that started it sees it. One thread uses it."""

    def __init__(self, task: ServerTask) -> None:
        """Start the process; `address` waits until it listens."""
        spawn = multiprocessing.get_context("spawn")  # a fork would take the threads' locks along
        self._pipe, far = spawn.Pipe()
        name = f"lakecore-query-server-{task.number.number}"
        self._process = spawn.Process(target=_serve, args=(task, far), name=name, daemon=True)
        self._process.start()
        far.close()

    @property
    def ended(self) -> bool:
        """Tell whether the process has ended."""
        return not self._process.is_alive()

    def address(self) -> Address:
        """Return where the server listens. Raises UnavailableError when it cannot."""
        try:
            text = self._pipe.recv() if self._pipe.poll(_START_SECONDS) else ""
        except (EOFError, OSError):
            text = ""
        if not text or text.startswith("{"):
            reason = (
                text or f"its process ended with code {self._process.exitcode}, or did not listen in time"
            )
            raise UnavailableError(f"{self._process.name} has not started: {reason}")
        return parse_address(text)

    def reports(self) -> Iterator[str]:
        """Yield the lines that the server has sent since the last call."""
        with contextlib.suppress(EOFError, OSError):
            while self._pipe.poll():
                yield self._pipe.recv()

    def close(self) -> None:
        """Let the server answer what was asked, and end; after 15 s it is killed."""
        self._pipe.close()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(task: ServerTask, pipe: Connection) -> None:
    """Serve until the pipe is closed. Signals are for the process that started this one, which closes it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    clock, server = SystemClock(), None
    with contextlib.suppress(EOFError, OSError):
        try:
            server = TableServer(task.load, clock, task.options, task.number)
            pipe.send(str(server.start()))
            while not pipe.poll(task.interval):
                pipe.send(report_line(task.number.number, server, clock))
                server.refresh()
        except LakeError as err:
            pipe.send(error_line(err))
        finally:
            if server is not None:
                server.close()
