"""How a compactor as a streaming query waits for its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lakecore.errors import UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.spark.follow_query import _wait_for_end


class Query:
    def __init__(self, *, active: bool = True, error: Exception | None = None) -> None:
        self.isActive = active
        self.error = error
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        self.isActive = False

    def exception(self) -> Exception | None:
        return self.error


class DeadSession(SerialExecutor):
    def check(self) -> None:
        raise UnavailableError("the Spark session has ended")


def wait(query: Any, workers: SerialExecutor | None = None, *, stop_after: float = 60) -> None:
    stop = threading.Event()
    timer = threading.Timer(stop_after, stop.set)
    timer.start()
    try:
        _wait_for_end(query, stop, workers or SerialExecutor())
    finally:
        timer.cancel()


def test_a_signal_stops_the_query() -> None:
    query = Query()
    wait(query, stop_after=0.01)
    assert query.stopped


def test_an_error_of_the_query_is_its_first_line() -> None:
    wait(Query(active=False))
    with pytest.raises(UnavailableError, match=r"ended with an error: no such database$"):
        wait(Query(active=False, error=ValueError("no such database\n  at line 1")))


def test_a_session_that_has_ended_is_named() -> None:
    class Lost(Query):
        def stop(self) -> None:
            raise ConnectionRefusedError

    with pytest.raises(UnavailableError, match="has ended"):
        wait(Lost(active=False), DeadSession())
    with pytest.raises(ConnectionRefusedError):
        wait(Lost(active=False))
