"""A TCP proxy that cuts the connection at the N-th request: what a client does when a server dies between."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["CutProxy", "cut_proxy"]


@dataclass
class CutProxy:
    """Counts requests (each arrives in one piece) and cuts the connection at number `cut_at`, 0 = never.

    `after_effect`: the request reaches the server, and its answer is lost. `lasting`: every later connection is
    refused, too.
    """

    port: int
    target: int
    cut_at: int = 0
    after_effect: bool = False
    lasting: bool = False
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def fired(self) -> bool:
        return 0 < self.cut_at <= self.count

    def arm(self, cut_at: int, *, after_effect: bool, lasting: bool = False) -> None:
        with self.lock:
            self.cut_at, self.after_effect, self.lasting, self.count = cut_at, after_effect, lasting, 0

    def is_cut(self) -> bool:
        with self.lock:
            self.count += 1
            return self.count == self.cut_at or (self.lasting and self.fired)


@contextmanager
def cut_proxy(target: int) -> Iterator[CutProxy]:
    """Listen on a free port and hand on to the port `target` of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = CutProxy(server.getsockname()[1], target)
        threading.Thread(target=_accept, args=(server, proxy), daemon=True).start()
        yield proxy


def _accept(server: socket.socket, proxy: CutProxy) -> None:
    with contextlib.suppress(OSError):  # the proxy was closed
        while True:
            client, _ = server.accept()
            threading.Thread(target=_serve, args=(client, proxy), daemon=True).start()


def _serve(client: socket.socket, proxy: CutProxy) -> None:
    """Hand on both directions. What the client sends after an answer is a new request."""
    with (
        client,
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", proxy.target)) as server,
    ):
        answered, cut = threading.Event(), threading.Event()
        answered.set()
        threading.Thread(target=_answers, args=(client, server, answered, cut), daemon=True).start()
        while request := client.recv(1 << 16):
            if answered.is_set() and proxy.is_cut():
                cut.set()
                if not proxy.after_effect:
                    break
            answered.clear()
            server.sendall(request)
        client.shutdown(socket.SHUT_RDWR)


def _answers(
    client: socket.socket, server: socket.socket, answered: threading.Event, cut: threading.Event
) -> None:
    with contextlib.suppress(OSError):
        while (answer := server.recv(1 << 16)) and not cut.is_set():
            answered.set()
            client.sendall(answer)
        client.shutdown(socket.SHUT_RDWR)
