"""A generator one step ahead in a thread: items, exceptions, early ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest

from lakecore.prefetch import Prefetch, in_threads, prefetch, round_robin


def count(made: list[int], closed: threading.Event, fail_at: int = -1) -> Generator[int]:
    try:
        for number in range(5):
            if number == fail_at:
                raise ValueError("broken")
            made.append(number)
            yield number
    finally:
        closed.set()


def threads() -> int:
    return sum(thread.name == "read-ahead" for thread in threading.enumerate())


def test_items_come_in_order() -> None:
    closed = threading.Event()
    assert list(prefetch(count([], closed))) == [0, 1, 2, 3, 4]
    assert closed.is_set()
    assert threads() == 0


def test_an_exception_comes_in_its_place() -> None:
    ahead = prefetch(count([], threading.Event(), fail_at=2))
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_an_early_end_closes_the_source() -> None:
    made: list[int] = []
    closed = threading.Event()
    ahead = prefetch(count(made, closed))
    assert next(ahead) == 0
    ahead.close()
    assert closed.wait(5)
    assert threads() == 0
    assert len(made) <= 4


@pytest.mark.parametrize(("room", "most"), [(1, 1), (3, 2), (6, 3), (100, 5)])
def test_what_waits_fits_the_room_by_its_size(room: int, most: int) -> None:
    """Items of sizes 1, 2, 3, 4, 5; one fits always."""
    made: list[int] = []
    ended = threading.Event()
    ahead = Prefetch(count(made, ended), room, lambda number: number + 1)
    for _ in range(1000):
        if len(made) > most or ended.wait(0.001):
            break
    assert len(made) == min(most + 1, 5)  # one more was made and waits for room
    assert list(ahead) == [0, 1, 2, 3, 4]


def test_sources_take_turns() -> None:
    sources = [lambda: iter("abc"), lambda: iter(""), lambda: iter("12345"), lambda: iter("xy")]
    assert "".join(round_robin(sources, 2)) == "ab1c23x4y5"
    assert "".join(round_robin(sources, 1)) == "abc12345xy"
    assert threads() == 0


def test_a_failing_source_ends_all() -> None:
    closed = threading.Event()
    taken = round_robin([lambda: count([], closed), lambda: count([], threading.Event(), fail_at=1)], 2)
    assert [next(taken), next(taken), next(taken)] == [0, 0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(taken)
    assert closed.wait(5)
    assert threads() == 0


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_calls_in_threads_give_results_in_order(workers: int) -> None:
    """While the first call lasts, so many have begun, and no more."""
    begun: list[int] = []
    meanwhile: list[int] = []

    def call(number: int) -> int:
        begun.append(number)
        if number == 0:
            wait_until(lambda: len(begun) == min(workers, 7))
            threading.Event().wait(0.02)
            meanwhile.extend(begun)
        return number * number

    assert list(in_threads(call, range(7), workers)) == [n * n for n in range(7)]
    assert sorted(meanwhile) == list(range(min(workers, 7)))
    assert threads() == 0


@pytest.mark.parametrize("workers", [1, 3])
def test_an_exception_of_a_call_comes_in_its_place_and_ends_the_others(workers: int) -> None:
    def call(number: int) -> float:
        return 1 / (2 - number)

    results = in_threads(call, range(6), workers)
    assert [next(results), next(results)] == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert threads() == 0


def test_calls_that_have_begun_end_before_the_exception_of_another_is_raised() -> None:
    failed, ended = threading.Event(), list[int]()

    def call(number: int) -> int:
        if number == 0:
            failed.set()
            raise ValueError("broken")
        assert failed.wait(30)
        threading.Event().wait(0.05)
        ended.append(number)
        return number

    with pytest.raises(ValueError, match="broken"):
        list(in_threads(call, range(2), 2))
    assert ended == [1]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it did not come about")
