"""This module runs units in this process and in workers, which are processes of this machine.

A worker takes some 0.7 s of a core to start. So workers start only when units have waited for a while: small
work costs what it costs in one process. Workers that were forked before cost some milliseconds, and
take units at once. Workers are kept for later units.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from lakecore.executor import attempt
from lakecore.processes.cores import core_count
from lakecore.processes.fork import can_fork, fork_workers
from lakecore.processes.worker_process import WorkerProcess

__all__ = ["ProcessExecutor"]

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")

_MOST_PROCESSES = 4


class ProcessExecutor:
    """It runs as many units at once as it has processes, of which this is one. Several threads may run
    units. Each process needs the memory of its unit.

    `processes`: by default one for each core that may be used, at most four. `forks`: copy this process now,
    if that is possible, instead of starting workers when they are needed. It is for processes that have
    nothing open yet.
    """

    name = "local"
    startup_seconds = 0.0
    patience_s = 0.25
    """After so long a unit waits for a worker, and no longer for this process only."""

    def __init__(self, processes: int | None = None, *, forks: bool = False) -> None:
        self.parallelism = processes or min(core_count(), _MOST_PROCESSES)
        self._most_workers = self.parallelism - 1
        self._changed = threading.Condition()
        self._here = False
        forked = fork_workers(self._most_workers) if forks and can_fork() else ()
        self._idle = [WorkerProcess(process) for process in forked]
        self._workers = set(self._idle)
        self._cancelled = False

    def __enter__(self) -> ProcessExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Yield results in the order of `tasks`. A unit whose worker was killed yields UnavailableError.
        Leaving the iterator early kills the workers that still run units of it.
        """
        units = list(tasks)
        if len(units) <= 1 or self.parallelism == 1:
            for task in units:
                place = self._place()
                if self._cancelled:
                    return
                yield self._run_at(place, function, task)
            return
        yield from _Batch(self, function, units).results()

    def check(self) -> None:
        """This process runs units as long as it lives."""

    def cancel(self) -> None:
        """Stop the workers at once. The unit of this process runs to its end."""
        with self._changed:
            self._cancelled = True
            for worker in self._workers:
                worker.kill()
            self._changed.notify_all()

    def close(self) -> None:
        """End the workers."""
        self.cancel()
        with self._changed:
            workers, self._workers = self._workers, set()
            self._idle = []
        for worker in workers:
            worker.join()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def worker(self, is_needed: Callable[[], bool]) -> WorkerProcess | None:
        """Return a worker once units have waited for a while, or None if `is_needed` turns false before, or
        the executor is cancelled.
        """
        deadline = time.monotonic() + self.patience_s
        with self._changed:
            while is_needed() and not self._cancelled:
                if self._idle:
                    worker = self._idle.pop()
                    if not worker.has_ended:
                        return worker
                    self._workers.discard(worker)
                    continue
                seconds = deadline - time.monotonic()
                if seconds <= 0 and len(self._workers) < self._most_workers:
                    if started := self._new_worker():
                        return started
                    continue
                self._changed.wait(seconds if seconds > 0 else None)
        return None

    def release(self, worker: WorkerProcess) -> None:
        """Keep a worker for later units, unless it has ended."""
        with self._changed:
            if worker.has_ended:
                self._workers.discard(worker)
            else:
                self._idle.append(worker)
            self._changed.notify_all()

    def notify(self) -> None:
        """Let those who wait for a worker look again whether they want one."""
        with self._changed:
            self._changed.notify_all()

    def _place(self) -> WorkerProcess | None:
        """Return where a single unit runs: None is this process."""

        def elsewhere() -> bool:
            if self._here:
                return True
            self._here = True
            return False

        return self.worker(elsewhere)

    def _run_at(self, place: WorkerProcess | None, function: Callable[[Any], Any], task: Any) -> Any:
        try:
            return attempt(function, task) if place is None else _attempt_at(place, function, task)
        finally:
            if place is None:
                with self._changed:
                    self._here = False
                    self._changed.notify_all()
            else:
                self.release(place)

    def _new_worker(self) -> WorkerProcess | None:
        """Start a worker; where the machine has no room for it, those that there are do the work."""
        try:
            worker = WorkerProcess()
        except OSError as err:
            logger.warning("no further worker process can be started: %s", err)
            self._most_workers = len(self._workers)
            return None
        self._workers.add(worker)
        return worker


class _Batch:
    """The units of one run. The thread that asks for results runs units too, and a thread for each worker."""

    def __init__(
        self, executor: ProcessExecutor, function: Callable[[Any], Any], tasks: Sequence[Any]
    ) -> None:
        self._executor = executor
        self._function = function
        self._tasks = tasks
        self._changed = threading.Condition()
        self._next = 0
        self._results: dict[int, Any] = {}
        self._busy: set[WorkerProcess] = set()

    def results(self) -> Iterator[Any]:
        others = min(self._executor.parallelism, len(self._tasks)) - 1
        threads = [  # who listens to units here hears those of workers, too
            threading.Thread(target=copy_context().run, args=(self._work,), daemon=True)
            for _ in range(others)
        ]
        for thread in threads:
            thread.start()
        try:
            for number in range(len(self._tasks)):
                if not self._wait_for(number):
                    return
                yield self._results.pop(number)
        finally:
            self._stop()
            for thread in threads:
                thread.join()

    def _wait_for(self, number: int) -> bool:
        """Run units until this one has a result; false if the executor was cancelled before."""
        while number not in self._results and (following := self._take()) is not None:
            self._store(following, attempt(self._function, self._tasks[following]))
        with self._changed:
            self._changed.wait_for(lambda: number in self._results or self._executor.cancelled)
            return number in self._results

    def _work(self) -> None:
        worker = self._executor.worker(lambda: self._next < len(self._tasks))
        if worker is None:
            return
        try:
            while (number := self._take(worker)) is not None:
                result = _attempt_at(worker, self._function, self._tasks[number])
                self._store(number, result, worker)
                if worker.has_ended:
                    return
        finally:
            self._executor.release(worker)

    def _take(self, worker: WorkerProcess | None = None) -> int | None:
        with self._changed:
            if self._next >= len(self._tasks) or self._executor.cancelled:
                return None
            self._next += 1
            if worker is not None:
                self._busy.add(worker)
            number = self._next - 1
        if number + 1 == len(self._tasks):
            self._executor.notify()
        return number

    def _store(self, number: int, result: Any, worker: WorkerProcess | None = None) -> None:
        with self._changed:
            if not self._executor.cancelled:
                self._results[number] = result
            if worker is not None:
                self._busy.discard(worker)
            self._changed.notify_all()

    def _stop(self) -> None:
        """Start no further unit, and kill the workers that run one."""
        with self._changed:
            self._next = len(self._tasks)
            for worker in self._busy:
                worker.kill()
        self._executor.notify()


def _attempt_at(worker: WorkerProcess, function: Callable[[Any], Any], task: Any) -> Any:
    """Run a unit in a worker, and return its result, or the exception that ended it."""
    return attempt(partial(worker.run, function), task)
