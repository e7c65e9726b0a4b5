"""This module ends a task that runs until it is stopped after a given time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

__all__ = ["stopped_after"]


@contextmanager
def stopped_after(run_for: timedelta | None) -> Iterator[threading.Event]:
    """Give an event that is set after this time; None: it is not set by time."""
    stop = threading.Event()
    if run_for is None:
        yield stop
        return
    timer = threading.Timer(run_for.total_seconds(), stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
