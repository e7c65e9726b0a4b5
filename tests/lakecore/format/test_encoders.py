"""Threads that encode: order of results, bounds, errors, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from lakecore.format.encoders import Encoders

A, B = object(), object()


def slow(value: int, seconds: float) -> Callable[[], int]:
    def encode() -> int:
        time.sleep(seconds)
        return value

    return encode


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "encode"]


def test_results_come_in_the_order_in_which_they_were_begun() -> None:
    encoders, taken = Encoders(3), list[int]()
    for number in range(6):
        encoders.begin(A, slow(number, 0.02 if number % 2 == 0 else 0), taken.append)
    assert taken == [0, 1, 2]
    encoders.finish(A)
    assert taken == [0, 1, 2, 3, 4, 5]
    assert not threads()


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_than_so_many_are_in_memory(most: int) -> None:
    encoders, held = Encoders(most), set[int]()
    peak = 0
    for number in range(8):
        encoders.begin(A, slow(number, 0.002), held.remove)
        held.add(number)
        peak = max(peak, len(held))
        assert len(threads()) <= most
    encoders.finish(A)
    assert (peak, held) == (most, set())


def test_two_run_at_the_same_time() -> None:
    encoders, both = Encoders(2), threading.Barrier(2)
    for _ in range(2):
        encoders.begin(A, lambda: both.wait(20), lambda _: None)
    encoders.finish(A)


def test_an_owner_waits_for_those_before_it_only() -> None:
    encoders, taken = Encoders(3), list[int]()
    for number, owner in enumerate((B, A, B)):
        encoders.begin(owner, slow(number, 0), taken.append)
    encoders.finish(A)
    assert taken == [0, 1]
    assert (encoders.is_busy_for(A), encoders.is_busy_for(B)) == (False, True)
    encoders.finish(B)
    assert taken == [0, 1, 2]


def test_an_error_is_raised_where_its_result_would_come() -> None:
    error, taken = MemoryError("no room"), list[int]()
    encoders = Encoders(2)

    def fail() -> int:
        raise error

    encoders.begin(A, slow(0, 0.01), taken.append)
    encoders.begin(A, fail, taken.append)
    encoders.begin(A, slow(2, 0), taken.append)  # takes the first
    with pytest.raises(MemoryError) as caught:
        encoders.begin(A, slow(3, 0), taken.append)
    assert caught.value is error
    encoders.drop(A)
    assert (taken, encoders.is_busy_for(A), threads()) == ([0], False, [])


def test_what_is_dropped_neither_ends_in_a_result_nor_in_an_error() -> None:
    encoders, taken = Encoders(3), list[int]()

    def fail() -> int:
        raise ValueError("of a dropped owner")

    encoders.begin(A, fail, taken.append)
    encoders.begin(B, slow(1, 0.01), taken.append)
    encoders.begin(A, slow(2, 0.02), taken.append)
    encoders.drop(A)
    assert len(threads()) <= 1
    encoders.finish(B)
    assert taken == [1]


def test_an_interrupted_wait_loses_nothing() -> None:
    encoders, taken = Encoders(1), list[int]()
    encoders.begin(A, slow(1, 0.01), taken.append)
    oldest = encoders._begun[0]
    joins = iter([KeyboardInterrupt()])

    class Interrupted:
        owner = oldest.owner
        take = staticmethod(oldest.take)

        def wait(self) -> None:
            for interrupt in joins:
                raise interrupt
            oldest.wait()

    encoders._begun[0] = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        encoders.finish(A)
    assert encoders.is_busy_for(A)
    encoders.drop(A)
    assert (encoders.is_busy_for(A), threads(), taken) == (False, [], [])


def test_no_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        Encoders(0)
