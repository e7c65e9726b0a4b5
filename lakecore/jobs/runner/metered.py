"""This module measures what work takes: the time of processors and cores, memory, and requests of storage,
here and in the processes of workers.

A process measures the attempts that run in it together. Where several run at once, the seconds of its core
are divided among them; time of the processor, memory and storage are unknown (None).
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import field
from typing import Any, TypeVar

from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.fs.tally import StorageUse, storage_use

__all__ = ["AttemptMeter", "MeteredExecutor", "WorkerUse", "peak_memory"]

A = TypeVar("A")
R = TypeVar("R")


def peak_memory() -> int:
    """Return the highest memory use of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass
class WorkerUse:
    """This is what the units of an attempt took in other processes."""

    seconds: float = 0.0
    """A unit has one core for so long."""
    cpu_seconds: float = 0.0
    storage: StorageUse = field(default_factory=StorageUse)


class MeteredExecutor:
    """Runs units on `inner`, records the highest peak of the processes that ran them (`peak`; 0 before the
    first), and adds to `use` what they took in other processes than this one.
    """

    def __init__(self, inner: Executor, use: WorkerUse | None = None) -> None:
        self._inner = inner
        self._use = use if use is not None else WorkerUse()
        self.peak = 0

    @property
    def engine(self) -> Executor:
        """Return the executor that runs the units."""
        return self._inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def parallelism(self) -> int:
        return self._inner.parallelism

    @property
    def startup_seconds(self) -> float:
        return self._inner.startup_seconds

    def run(self, function: Callable[[A], R], tasks: Iterable[A]) -> Iterator[R | BaseException]:
        """Run the tasks as `inner` does."""
        results = self._inner.run(_measure, (_MeasuredUnit(function, task) for task in tasks))
        try:
            for result in results:
                if isinstance(result, BaseException):
                    yield result
                else:
                    self._add(result[1])
                    yield result[0]
        finally:
            if isinstance(results, Generator):
                results.close()

    def _add(self, took: _UnitUse) -> None:
        self.peak = max(self.peak, took.peak)
        if took.pid != os.getpid():
            self._use.seconds += took.seconds
            self._use.cpu_seconds += took.cpu_seconds
            self._use.storage += took.storage

    def check(self) -> None:
        self._inner.check()

    def cancel(self) -> None:
        self._inner.cancel()


@dataclass(frozen=True, slots=True)
class _MeasuredUnit:
    """A unit and its task."""

    function: Callable[[Any], Any]
    task: Any

    @property
    def rows(self) -> int:
        """Return the number that a fair queue asks for."""
        return int(getattr(self.task, "rows", 0))


@dataclass(frozen=True, slots=True)
class _UnitUse:
    """This is what one unit took, and the process in which it ran. A worker runs one unit at a time."""

    pid: int
    peak: int
    seconds: float
    cpu_seconds: float
    storage: StorageUse


def _measure(call: _MeasuredUnit) -> tuple[Any, _UnitUse]:
    wall, cpu, storage = time.monotonic(), time.process_time(), storage_use()
    result = call.function(call.task)
    took = _UnitUse(
        pid=os.getpid(),
        peak=peak_memory(),
        seconds=time.monotonic() - wall,
        cpu_seconds=time.process_time() - cpu,
        storage=storage_use() - storage,
    )
    return result, took


class _Shares:
    """It divides the time of this process among the attempts that run in it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._begun = 0
        self._share = 0.0
        """It grows by the seconds that pass, divided by the attempts that run."""
        self._looked = 0.0

    def enter(self) -> tuple[float, int, bool]:
        """Return the share so far, the number of the attempt, and whether no other one runs."""
        with self._lock:
            self._pass()
            self._running += 1
            self._begun += 1
            return self._share, self._begun, self._running == 1

    def leave(self) -> tuple[float, int]:
        """Return the share so far, and how many attempts have begun."""
        with self._lock:
            self._pass()
            self._running -= 1
            return self._share, self._begun

    def _pass(self) -> None:
        now = time.monotonic()
        if self._running:
            self._share += (now - self._looked) / self._running
        self._looked = now


_shares = _Shares()


class AttemptMeter:
    """It measures one attempt from its begin to its end. `workers` gets what its units take elsewhere."""

    def __init__(self) -> None:
        self.workers = WorkerUse()
        self._share, self._number, self._alone = _shares.enter()
        self._wall, self._cpu, self._storage = time.monotonic(), time.process_time(), storage_use()

    def stop(self) -> dict[str, Any]:
        """Return the cost of the attempt."""
        share, begun = _shares.leave()
        workers = self.workers
        measures: dict[str, Any] = dict.fromkeys(
            ("cpu_seconds", "peak_bytes", "requests", "bytes_read", "bytes_written")
        )
        if self._alone and self._number == begun:
            used = storage_use() - self._storage + workers.storage
            measures = {
                "cpu_seconds": round(time.process_time() - self._cpu + workers.cpu_seconds, 3),
                "peak_bytes": peak_memory(),
                "requests": used.requests,
                "bytes_read": used.bytes_read,
                "bytes_written": used.bytes_written,
            }
        seconds = round(time.monotonic() - self._wall, 3)
        core_seconds = round(share - self._share + workers.seconds, 3)
        return {"seconds": seconds, "core_seconds": core_seconds} | measures
