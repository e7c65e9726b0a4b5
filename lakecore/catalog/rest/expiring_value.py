"""This module keeps a secret that expires, and gets a new one in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lakecore.clock import Clock

__all__ = ["ExpiringValue"]

A = TypeVar("A")

_LONGEST_BEFORE_MS = 3_600_000
"""Java gets a new token an hour before the old one expires."""


class ExpiringValue(Generic[A]):
    """This is a value that is loaded when it is first needed, and again before it expires: an hour before, or
    after half of its life if it lives for less than two hours.

    `load` returns the value and when it expires, in milliseconds since the epoch (None: never). It can be
    pickled, without the value, and several threads may use it at once.
    """

    def __init__(self, load: Callable[[], tuple[A, int | None]], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._value: A | None = None
        self._until_ms: float = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"load": self._load, "clock": self._clock}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ExpiringValue.__init__(self, state["load"], state["clock"])

    def __repr__(self) -> str:
        """Return the name of the class: the value is a secret."""
        return type(self).__name__

    def get(self) -> A:
        """Return the value. Raises what loading it raises."""
        with self._lock:
            if self._value is None or self._clock.now_ms() >= self._until_ms:
                self._value, expires_ms = self._load()
                now_ms = self._clock.now_ms()
                self._until_ms = float("inf")
                if expires_ms is not None:
                    self._until_ms = expires_ms - min(_LONGEST_BEFORE_MS, (expires_ms - now_ms) / 2)
            return self._value

    @property
    def last(self) -> A | None:
        """Return the value if it was loaded before, whether it expired or not."""
        return self._value

    def forget(self) -> None:
        """Load the value again when it is needed the next time, because it was refused."""
        with self._lock:
            self._value = None
