"""This module has one connection to a query server, which many requests share."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import Future, InvalidStateError
from dataclasses import field
from itertools import count

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.wire.frames import LENGTH, SMALLEST, Frame, FrameType, decode_frame, encode_frame

__all__ = ["ClientOptions", "Connection"]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """These are the limits of a client. Times are in seconds, sizes in bytes."""

    connect_seconds: float = 5.0
    answer_seconds: float = 30.0
    tries: int = 5
    first_wait: float = 0.1
    """It is the wait before the second try, and doubles with each further one up to `longest_wait`."""
    longest_wait: float = 1.0
    max_frame: int = 128 << 20
    threads: int = 8
    """So many requests are under way at once; others wait."""
    token: str | None = field(default=None, repr=False)


class Connection:
    """It sends requests and hands each answer to the one who asked. Many threads may use it."""

    def __init__(self, address: Address, options: ClientOptions, identity: str = "") -> None:
        """Connect to the service of this identity; empty: it has none. Raises UnavailableError."""
        self._peer = f"query server {address}"
        self._options = options
        self._numbers = count(1)
        self._waiting: dict[int, Future[Frame]] = {}
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._ended = False
        try:
            self._socket = socket.create_connection((address.host, address.port), options.connect_seconds)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(None)
        except OSError as err:
            raise UnavailableError(f"{self._peer} cannot be reached ({err})") from err
        self._reader = threading.Thread(target=self._read, name="lakecore-answers", daemon=True)
        self._reader.start()
        if options.token is not None:
            self._send(Frame(FrameType.TOKEN, 0, options.token.encode()))
        if identity:
            self._send(Frame(FrameType.IDENTITY, 0, identity.encode()))

    @property
    def ended(self) -> bool:
        """Tell whether the connection was closed by either side."""
        return self._ended

    def ask(self, body: bytes) -> Frame:
        """Send a request and return its answer. Raises UnavailableError when none comes in time."""
        number = next(self._numbers)
        future: Future[Frame] = Future()
        with self._lock:
            if self._ended:
                raise self._lost_error()
            self._waiting[number] = future
        try:
            self._send(Frame(FrameType.REQUEST, number, body))
            return future.result(self._options.answer_seconds)
        except TimeoutError as err:
            seconds = self._options.answer_seconds
            raise UnavailableError(f"{self._peer} gave no answer in {seconds:g} s") from err
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def close(self) -> None:
        """Close the connection; requests that wait fail."""
        with self._lock:
            self._ended = True
            waiting = tuple(self._waiting.values())
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for future in waiting:
            with contextlib.suppress(InvalidStateError):
                future.set_exception(self._lost_error())

    def _send(self, frame: Frame) -> None:
        try:
            with self._sending:
                self._socket.sendall(encode_frame(frame))
        except OSError as err:
            self.close()
            raise self._lost_error() from err

    def _read(self) -> None:
        try:
            while True:
                (size,) = LENGTH.unpack(self._exactly(LENGTH.size))
                if not SMALLEST <= size <= self._options.max_frame:
                    raise CorruptDataError(self._peer, f"it sent a frame of {size} bytes")
                frame = decode_frame(self._exactly(size), self._peer)
                if frame.type not in (FrameType.RESULT, FrameType.REQUEST_FAILURE):
                    raise CorruptDataError(self._peer, f"it sent a frame of type {frame.type.name}")
                with self._lock:
                    future = self._waiting.pop(frame.request_id, None)
                if future is not None:
                    future.set_result(frame)
        except (OSError, EOFError, CorruptDataError):
            self.close()

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _lost_error(self) -> UnavailableError:
        return UnavailableError(
            f"{self._peer} closed the connection; look whether it runs, whether it asks for a token, and "
            "whether the service of another table has taken its port"
        )
