"""This module runs the units of many tables on one executor, as one stream of jobs: tasks hold units of
whichever tables wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lakecore.compact.pool.plan import UNIT_COST, Admission, FairQueue, QueuedUnit
from lakecore.executor import Executor, UnitListener, UnitWork, run_of_table, unit_listener, watch_units

__all__ = ["PlanBudget", "TableExecutor", "UnitPool"]

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")

_MOST_SLOTS = 64
_Call = tuple[Callable[[Any], Any], Any]


class PlanBudget:
    """It lets threads plan tables while the plans that are held fit into `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._admission = Admission(limit)
        self._changed = threading.Condition()
        self._numbers = 0

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Wait for `size` bytes and keep them within the block."""
        with self._changed:
            self._numbers += 1
            who = self._numbers
            self._admission.ask(who, size)
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._admission.is_in(who))
            yield
        finally:
            with self._changed:
                self._admission.leave(who)
                self._changed.notify_all()


class UnitPool:
    """The pool runs units of many tables on `engine`. Each table's thread has a `TableExecutor` of it.

    As many jobs are under way as the engine runs units at once, and one more, so that no worker waits for
    the next; a job is a large unit or a bundle of small ones. A bundle that is lost with its worker is tried
    again unit by unit, so that only the unit at fault fails. The threads start with the first unit: where no
    table has anything to do, no engine is started.
    """

    def __init__(self, engine: Executor) -> None:
        self.engine = engine
        self._changed = threading.Condition()
        self._queue = FairQueue()
        self._streams: dict[int, _Stream] = {}
        self._threads: list[threading.Thread] = []
        self._slots = 0
        self._numbers = 0
        self._closed = False

    def __enter__(self) -> UnitPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.cancel()
        self.close()

    def cancel(self) -> None:
        """Stop running units soon; every table's run then ends. Another thread may call it, and it may be
        called twice.
        """
        self.engine.cancel()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads, once what they run has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def open(self, calls: Sequence[_Call]) -> _Stream:
        """Queue the units of a table. Whoever listens to units here hears what they tell."""
        self._start()
        listener = unit_listener()
        with self._changed:
            self._numbers += 1
            number = self._numbers
            numbered = [(partial(run_of_table, number, function), task) for function, task in calls]
            stream = _Stream(number, numbered, listener)
            self._streams[stream.number] = stream
            units = [QueuedUnit(stream.number, number, _cost(task)) for number, (_, task) in enumerate(calls)]
            self._queue.add(units)
            self._changed.notify_all()
        return stream

    def wait(self, stream: _Stream, number: int) -> bool:
        """Wait until the unit has a result, and return False when the pool was closed before."""
        with self._changed:
            self._changed.wait_for(
                lambda: number in stream.results or (self._closed and not stream.under_way)
            )
            return number in stream.results

    def leave(self, stream: _Stream) -> None:
        """Drop the units that nobody has taken and wait for the others, so that none writes after this."""
        with self._changed:
            self._queue.drop(stream.number)
            stream.abandoned = True
            self._changed.wait_for(lambda: not stream.under_way)
            del self._streams[stream.number]

    def _start(self) -> None:
        if self._slots or self._closed:
            return
        parallelism = self.engine.parallelism  # may take seconds, or fail: not under the lock
        extra = 0 if self.engine.name == "local" else 1
        with self._changed:
            if self._slots:
                return
            self._slots = min(parallelism + extra, _MOST_SLOTS)
            width = -(-parallelism // self._slots)
            for number in range(self._slots):
                name = f"lakecore-units-{number}"
                thread = threading.Thread(target=self._work, args=(width,), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self, width: int) -> None:
        """Run the jobs of one slot: one job of up to `width` tasks after another."""
        while tasks := self._take(width):
            calls = [[self._streams[unit.stream].calls[unit.number] for unit in task] for task in tasks]
            finished = 0
            try:
                with watch_units(self._hear):
                    for result, task in zip(self.engine.run(_run_bundle, calls), tasks, strict=False):
                        self._deliver(task, result)
                        finished += 1
            except Exception as err:  # noqa: BLE001 - the border of a thread: each table raises it
                for task in tasks[finished:]:
                    self._deliver(task, err)
                continue
            for task in tasks[finished:]:
                self._deliver(task, None)

    def _hear(self, work: UnitWork) -> None:
        """Pass on what a unit tells to who listens to its table."""
        table, *unit = work.unit
        stream = self._streams.get(table) if isinstance(table, int) else None
        if stream is not None and stream.listener is not None:
            stream.listener(replace(work, unit=tuple(unit)))

    def _take(self, width: int) -> list[tuple[QueuedUnit, ...]]:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._queue))
            if self._closed:
                return []
            tasks = [task for _ in range(width) if (task := self._queue.take(self._slots * width))]
            for unit in (unit for task in tasks for unit in task):
                self._streams[unit.stream].under_way.add(unit.number)
            return tasks

    def _deliver(self, task: Sequence[QueuedUnit], result: Any) -> None:
        """Store a result. It has that of each unit; it is an exception if the task failed, and None if the
        task was cancelled.
        """
        with self._changed:
            if result is None:
                self._closed = True
            results = result if isinstance(result, list) else [result] * len(task)
            for unit, one in zip(task, results, strict=True):
                stream = self._streams[unit.stream]
                stream.under_way.discard(unit.number)
                if result is None or stream.abandoned:
                    continue
                if len(task) > 1 and isinstance(one, (_FailedUnit, BaseException)):
                    logger.info("a unit failed in a task with %d others and is retried alone", len(task) - 1)
                    self._queue.add([QueuedUnit(unit.stream, unit.number, unit.cost, alone=True)])
                else:
                    stream.results[unit.number] = one
            self._changed.notify_all()


class _Stream:
    """The units of one table, which have their calls, and results by number."""

    def __init__(self, number: int, calls: Sequence[_Call], listener: UnitListener | None) -> None:
        self.number = number
        self.calls = calls
        self.listener = listener
        self.results: dict[int, Any] = {}
        self.under_way: set[int] = set()
        self.abandoned = False


class TableExecutor:
    """This executor is the share of one table in a pool."""

    def __init__(self, pool: UnitPool) -> None:
        self._pool = pool

    @property
    def engine(self) -> Executor:
        """Return the engine of the pool."""
        return self._pool.engine

    @property
    def name(self) -> str:
        return self._pool.engine.name

    @property
    def parallelism(self) -> int:
        return self._pool.engine.parallelism

    @property
    def startup_seconds(self) -> float:
        return self._pool.engine.startup_seconds

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Yield results in the order of `tasks`. Leaving the iterator waits for the units that run
        already.
        """
        calls = [(function, task) for task in tasks]
        if not calls:
            return
        stream = self._pool.open(calls)
        try:
            for number in range(len(calls)):
                if not self._pool.wait(stream, number):
                    return
                yield stream.results.pop(number)
        finally:
            self._pool.leave(stream)

    def check(self) -> None:
        """Raise UnavailableError if the engine of the pool has ended."""
        self._pool.engine.check()

    def cancel(self) -> None:
        """Cancel the whole pool."""
        self._pool.cancel()


class _FailedUnit:
    """Stands for the result of a unit that raised in a bundle."""


def _cost(task: Any) -> int:
    return UNIT_COST + int(getattr(task, "rows", 0))


def _run_bundle(calls: Sequence[_Call]) -> list[Any]:
    """Run one task on the executor. A unit alone raises its error; among others its failure is returned."""
    if len(calls) == 1:
        function, task = calls[0]
        return [function(task)]
    return [_attempt(function, task) for function, task in calls]


def _attempt(function: Callable[[Any], Any], task: Any) -> Any:
    try:
        return function(task)
    except Exception as err:  # noqa: BLE001 - the border of a unit: it is tried again alone
        logger.info("%s: %s", getattr(task, "name", task), err)
        return _FailedUnit()
