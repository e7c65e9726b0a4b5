"""This module lets commands that run until they are told to stop end what they do first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stopped_by_signals"]


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Give an event that SIGTERM and SIGINT set. A second signal does what it does without this."""
    stop = threading.Event()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, handlers[signal.Signals(number)])
        stop.set()

    for number in handlers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
