"""Servers of real files for the file systems of fsspec: HTTP with ranges, and SFTP."""

from __future__ import annotations

import http.server
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import paramiko

__all__ = ["HttpServer", "SftpServer", "http_server", "sftp_server"]


@dataclass
class HttpServer:
    """It says where a server listens, and what it does wrong."""

    port: int
    status: int = 200
    """Another status than 200 is the answer to every request."""
    missing: str | None = None
    """Files with this in their name are gone."""
    short: str | None = None
    """Answers for files with this in their name end in the middle."""
    whole: bool = False
    """Ranges are ignored."""
    requests: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Files(http.server.SimpleHTTPRequestHandler):
    """Python's own server of directories, with ranges."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, *given: Any, state: HttpServer, **named: Any) -> None:
        self.state = state
        super().__init__(*given, **named)

    def do_GET(self) -> None:
        self._answer(with_data=True)

    def do_HEAD(self) -> None:
        self._answer(with_data=False)

    def _answer(self, *, with_data: bool) -> None:
        self.state.requests.append(f"{self.command} {self.path}")
        path = Path(self.translate_path(self.path))
        if self.state.status != 200:
            self.send_error(self.state.status)
        elif self.state.missing and self.state.missing in self.path:
            self.send_error(404)
        elif path.is_dir():
            super().do_GET() if with_data else super().do_HEAD()
        elif not path.exists():
            self.send_error(404)
        else:
            self._send_file(path.read_bytes(), with_data=with_data)

    def _send_file(self, data: bytes, *, with_data: bool) -> None:
        chosen = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if chosen and not self.state.whole:
            data = data[int(chosen[1]) : int(chosen[2]) + 1]
        self.send_response(206 if chosen and not self.state.whole else 200)
        is_short = bool(self.state.short and self.state.short in self.path and with_data)
        length = len(data) // 2 if is_short else len(data)
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        if with_data:
            self.wfile.write(data[:length])

    def log_message(self, *given: Any) -> None:
        """Say nothing."""


@contextmanager
def http_server(folder: Path) -> Iterator[HttpServer]:
    """Serve a directory to readers."""
    state = HttpServer(0)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Files, state=state, directory=str(folder))
    )
    state.port = server.server_port
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SftpServer:
    """It says where a server listens, whom it knows, and which path it denies."""

    port: int
    user: str = "reader"
    password: str = "hunter2"
    denied: str | None = None
    connections: list[paramiko.Transport] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"sftp://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """Options of a catalog."""
        return {"fsspec.username": self.user, "fsspec.password": self.password}

    def cut(self) -> None:
        """End every connection."""
        while self.connections:
            self.connections.pop().close()


class _Login(paramiko.ServerInterface):
    def __init__(self, state: SftpServer) -> None:
        self.state = state

    def check_auth_password(self, username: str, password: str) -> int:
        is_known = (username, password) == (self.state.user, self.state.password)
        return paramiko.AUTH_SUCCESSFUL if is_known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def get_allowed_auths(self, username: str) -> str:
        return "password"


class _Disk(paramiko.SFTPServerInterface):
    """The files below a directory, to read only."""

    def __init__(self, server: Any, *given: Any, state: SftpServer, folder: Path, **named: Any) -> None:
        super().__init__(server, *given, **named)
        self.state, self.folder = state, folder

    def _real(self, path: str) -> str:
        if self.state.denied and self.state.denied in path:
            raise PermissionError(13, "denied")
        return f"{self.folder}{self.canonicalize(path)}"

    def list_folder(self, path: str) -> Any:
        try:
            with os.scandir(self._real(path)) as entries:
                return [
                    paramiko.SFTPAttributes.from_stat(one.stat(follow_symlinks=False), one.name)
                    for one in entries
                ]
        except OSError as err:
            return paramiko.SFTPServer.convert_errno(err.errno or 0)

    def stat(self, path: str) -> Any:
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(self._real(path)))
        except OSError as err:
            return paramiko.SFTPServer.convert_errno(err.errno or 0)

    def lstat(self, path: str) -> Any:
        return self.stat(path)

    def open(self, path: str, flags: int, attr: Any) -> Any:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return paramiko.SFTP_PERMISSION_DENIED
        try:
            file = open(self._real(path), "rb")  # noqa: SIM115 - the handle closes it
        except OSError as err:
            return paramiko.SFTPServer.convert_errno(err.errno or 0)
        handle = paramiko.SFTPHandle(flags)
        handle.readfile = file
        return handle


@contextmanager
def sftp_server(folder: Path) -> Iterator[SftpServer]:
    """Serve a directory to readers that know the password."""
    key = paramiko.ECDSAKey.generate()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        state = SftpServer(listening.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    transport = paramiko.Transport(connection)
                    transport.add_server_key(key)
                    transport.set_subsystem_handler(
                        "sftp", paramiko.SFTPServer, _Disk, state=state, folder=folder
                    )
                    state.connections.append(transport)
                    with suppress(EOFError, paramiko.SSHException):
                        transport.start_server(server=_Login(state))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            state.cut()
