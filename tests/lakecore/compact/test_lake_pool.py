"""Tables share an executor: their units come back in order, a failing one fails alone, leaving leaves nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from lakecore.compact.pool.pool import PlanBudget, TableExecutor, UnitPool
from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.executor import SerialExecutor


class Large(int):
    """A unit that is a task of its own."""

    rows = 1_000_000


class Counting(SerialExecutor):
    """Four units at once; counts the jobs that it is given."""

    name = "counting"
    parallelism = 4

    def __init__(self) -> None:
        super().__init__()
        self.jobs = 0
        self.go = threading.Event()
        self.go.set()

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        assert self.go.wait(60)
        self.jobs += 1
        return super().run(function, tasks)


class Dying(Counting):
    """Loses every task that holds unit 13, as a worker that runs out of memory does."""

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            if any(unit == 13 for _, unit in task):
                yield UnavailableError("its worker was killed")
            else:
                yield from super().run(function, [task])


def double(number: int) -> int:
    if number == 13:
        raise CorruptDataError("/lake/13", "broken")
    return 2 * number


def everything(pool: UnitPool, tables: Iterable[range]) -> list[list[Any]]:
    def one(units: range) -> list[Any]:
        return list(TableExecutor(pool).run(double, units))

    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(one, tables))


def test_units_of_many_tables_share_few_jobs_and_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first job begins when the units of all tables wait."""
    engine = Counting()
    engine.go.clear()
    open_stream, opened = UnitPool.open, count(1)

    def opening(pool: UnitPool, calls: Any) -> Any:
        stream = open_stream(pool, calls)
        if next(opened) == 16:
            engine.go.set()
        return stream

    monkeypatch.setattr(UnitPool, "open", opening)
    with UnitPool(engine) as pool:
        results = everything(pool, [range(n, n + 20) for n in range(100, 116)])
    assert results == [[2 * unit for unit in range(n, n + 20)] for n in range(100, 116)]
    assert engine.jobs <= 64, "of 320 units"


@pytest.mark.parametrize(("engine", "error"), [(Counting, CorruptDataError), (Dying, UnavailableError)])
def test_a_unit_that_fails_among_others_fails_alone(engine: type[Counting], error: type[Exception]) -> None:
    with UnitPool(engine()) as pool:
        results = everything(pool, [range(20), range(20, 40), range(40, 60)])
    failed = results[0].pop(13)
    assert isinstance(failed, error)
    assert results[0] == [2 * unit for unit in range(20) if unit != 13]
    assert results[1:] == [[2 * unit for unit in range(20, 40)], [2 * unit for unit in range(40, 60)]]


def test_an_engine_that_does_not_start_is_an_error_of_each_table_and_no_units_start_none() -> None:
    class Broken(Counting):
        @property
        def parallelism(self) -> int:  # type: ignore[override]
            raise UnavailableError("no Java")

    with UnitPool(Broken()) as pool:
        assert list(TableExecutor(pool).run(double, [])) == []
        for _ in range(2):
            with pytest.raises(UnavailableError, match="no Java"):
                list(TableExecutor(pool).run(double, [1]))


def test_who_leaves_waits_for_its_units_and_others_go_on() -> None:
    started, go, written = threading.Event(), threading.Event(), list[int]()

    def slow(number: int) -> int:
        if number:
            started.set()
            go.wait(10)
        written.append(number)
        return number

    with UnitPool(SerialExecutor()) as pool:
        left = TableExecutor(pool).run(slow, map(Large, range(5)))
        assert next(left) == 0
        assert started.wait(10)
        leaving = threading.Thread(target=left.close)  # type: ignore[attr-defined]
        leaving.start()
        leaving.join(0.05)
        assert leaving.is_alive()
        go.set()
        leaving.join(10)
        assert not leaving.is_alive()
        assert list(TableExecutor(pool).run(double, [4])) == [8]
    assert written == [0, 1]


def test_cancelling_ends_every_table() -> None:
    started, cancelled, ended = threading.Event(), threading.Event(), list[int]()

    def wait(_: int) -> int:
        started.set()
        cancelled.wait(20)
        return 1

    class Two(SerialExecutor):
        parallelism = 2

    with UnitPool(Two()) as pool:

        def table() -> None:
            ended.append(len(list(TableExecutor(pool).run(wait, map(Large, range(50))))))

        threads = [threading.Thread(target=table) for _ in range(2)]
        for thread in threads:
            thread.start()
        started.wait(10)
        TableExecutor(pool).cancel()
        cancelled.set()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
    assert sum(ended) < 5


def test_a_plan_waits_until_there_is_room() -> None:
    budget, order = PlanBudget(100), []

    def second() -> None:
        with budget.holding(60):
            order.append("second")

    with budget.holding(60):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        order.append("first is done")
    thread.join(10)
    assert order == ["first is done", "second"]
