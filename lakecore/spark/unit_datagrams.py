"""This module lets units on executors tell the driver how far they are, in datagrams (UDP).

Spark has no way for that while a task of Python runs: its accumulators come with the end of the task. A
task sends a datagram at most once a second, and nobody waits for it. Where a firewall drops it, a unit counts
when it has ended. A datagram has a random token, the numbers of rows, and no name.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakecore.clock import SystemClock
from lakecore.data_class import dataclass
from lakecore.executor import UnitListener, UnitWork
from lakecore.processes.unit_messages import decode_message, encode_message

__all__ = ["DatagramAddress", "UnitDatagrams", "address_towards"]

logger = logging.getLogger(__name__)

_UNITS = 20
"""A datagram tells of so many units: it then fits into one packet."""
_TOKEN = 36
"""A token has so many characters."""
_LARGEST = 4096
_IDLE_S = 0.5


@dataclass(frozen=True, slots=True)
class DatagramAddress:
    """It is where the driver receives what the units of one run tell. It can be pickled."""

    host: str
    port: int
    token: str

    def send(self, works: Sequence[UnitWork]) -> None:
        """Send how far units are. Raises OSError where the address cannot be used."""
        family, kind, protocol, _, place = _resolve(self.host, self.port)
        with socket.socket(family, kind, protocol) as sender:
            for first in range(0, len(works), _UNITS):
                sender.sendto(self.token.encode() + encode_message(works[first : first + _UNITS]), place)


class UnitDatagrams:
    """It receives datagrams on a port of this machine while somebody listens. Several threads may listen."""

    def __init__(self, host: str, bind_host: str | None = None) -> None:
        """Create the receiver. `host` is what executors call this machine; `bind_host` is the address to
        listen at, by default the same.
        """
        self._host = host
        self._bind_host = bind_host or host
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._listeners: dict[str, UnitListener] = {}
        self._socket: socket.socket | None = None

    @contextmanager
    def address_for(self, listener: UnitListener | None) -> Iterator[DatagramAddress | None]:
        """Let `listener` hear within the block of units that have the address. It is None where nobody
        listens, or no port can be opened.
        """
        address = None if listener is None else self._open(listener)
        try:
            yield address
        finally:
            if address is not None:
                with self._lock:
                    del self._listeners[address.token]

    def _open(self, listener: UnitListener) -> DatagramAddress | None:
        token = self._clock.fresh_id()
        with self._lock:
            if self._socket is None:
                try:
                    self._socket = _bound(self._bind_host)
                except OSError as err:
                    logger.info("units count when they have ended: no port at %s: %s", self._bind_host, err)
                    return None
                receiver = threading.Thread(
                    target=self._receive, args=(self._socket,), name="lakecore-unit-datagrams", daemon=True
                )
                receiver.start()
            self._listeners[token] = listener
            return DatagramAddress(self._host, self._socket.getsockname()[1], token)

    def _receive(self, port: socket.socket) -> None:
        """Pass on what comes, until nobody listens."""
        with port:
            while True:
                try:
                    data = port.recv(_LARGEST)
                except TimeoutError:
                    data = b""
                except OSError as err:  # an answer of the network to nothing that was sent from here
                    logger.debug("a datagram was lost: %s", err)
                    continue
                with self._lock:
                    if not self._listeners:
                        self._socket = None
                        return
                self._take(data)

    def _take(self, data: bytes) -> None:
        """Pass on one datagram; one without a valid token, or of another form, is dropped."""
        with self._lock:
            listener = self._listeners.get(data[:_TOKEN].decode("ascii", "replace"))
        if listener is None:
            return
        try:
            works = decode_message(data[_TOKEN:])
        except ValueError:
            return
        for work in works:
            listener(work)


def address_towards(host: str) -> str | None:
    """Return the address of this machine from which packets to `host` leave; None if there is no way there.
    Nothing is sent.
    """
    try:
        family, kind, protocol, _, place = _resolve(host, 9)
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _bound(host: str) -> socket.socket:
    family, kind, protocol, _, place = _resolve(host, 0)
    port = socket.socket(family, kind, protocol)
    try:
        port.settimeout(_IDLE_S)
        port.bind(place)
    except BaseException:
        port.close()
        raise
    return port


def _resolve(
    host: str, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
