"""This module sends what units tell to the process that started them, and reads it there.

Messages are seldom: work waits until some time after the last message, and of a unit the newest counts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from lakecore.executor import UnitWork

__all__ = ["UnitMessages", "decode_message", "encode_message"]

EVERY_S = 1.0
"""Two messages of an attempt are so many seconds apart."""


class UnitMessages:
    """It listens to the units of a process, and sends what they tell. Several threads may call it."""

    def __init__(self, send: Callable[[Sequence[UnitWork]], None]) -> None:
        """Create the sender. An OSError of `send` ends the messages, not the unit."""
        self._send = send
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int | str, ...], UnitWork] = {}
        self._sent_s = time.monotonic()
        self._closed = False

    def __call__(self, work: UnitWork) -> None:
        with self._lock:
            if self._closed:
                return
            self._waiting[work.unit] = work
            if time.monotonic() - self._sent_s < EVERY_S:
                return
            works, self._waiting = list(self._waiting.values()), {}
            try:
                self._send(works)
            except OSError:
                self._closed = True
            self._sent_s = time.monotonic()

    def close(self) -> None:
        """Send nothing more: the result follows, which says all."""
        with self._lock:
            self._closed = True


def encode_message(works: Sequence[UnitWork]) -> bytes:
    """Return the bytes of a message."""
    return json.dumps([[*work.unit, work.read, work.proven] for work in works]).encode()


def decode_message(data: bytes) -> Sequence[UnitWork]:
    """Parse a message. Raises ValueError for bytes that are none."""
    try:
        return [_work(entry) for entry in json.loads(data)]
    except (TypeError, ValueError, RecursionError) as err:
        raise ValueError("this is no message of a unit") from err


def _work(entry: Any) -> UnitWork:
    *unit, read, proven = entry
    if not unit or not all(isinstance(part, int | str) for part in unit):
        raise TypeError(f"{unit} is no unit")
    return UnitWork(tuple(unit), int(read), int(proven))
