"""This module renews the leases of work that takes long: one thread gives signs of life for all of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakecore.errors import LakeError

if TYPE_CHECKING:
    from lakecore.maintain.lease.lease import Lease

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)

_BEATS = 3


class Heartbeat:
    """This thread renews leases, each three times in its length. It starts with the first lease."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Heartbeat:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def keeping(self, lease: Lease) -> Iterator[None]:
        """Renew the lease within the block, and never after it."""
        with self._lock:
            self._leases[id(lease)] = lease
            if self._thread is None:
                seconds = lease.millis / 1000 / _BEATS
                self._thread = threading.Thread(target=self._beat, args=(seconds,), daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._leases[id(lease)]

    def _beat(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            with self._lock:
                leases = tuple(self._leases)
            for key in leases:
                self._renew(key)

    def _renew(self, key: int) -> None:
        with self._lock:  # a lease that is being released must not come back to life
            lease = self._leases.get(key)
            try:
                if lease is not None:
                    lease.renew()
            except LakeError as err:
                logger.warning("the lease %s could not be renewed: %s", lease.path if lease else "", err)
