"""A port of this machine at which nobody answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["silent_port"]


@contextmanager
def silent_port() -> Iterator[int]:
    """Bind a port without listening: connections are refused, and no other process of the tests can take it meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])
