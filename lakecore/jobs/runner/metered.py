"""This module measures the memory that work takes: the peak of the processes that do it, since they
started.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from lakecore.executor import Executor

__all__ = ["MeteredExecutor", "peak_memory"]

A = TypeVar("A")
R = TypeVar("R")


def peak_memory() -> int:
    """Return the highest memory use of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class MeteredExecutor:
    """Runs units on `inner` and records the highest peak of the processes that ran them (`peak`; 0 before the
    first).
    """

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        self.peak = 0

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
        results = self._inner.run(_measured, (_MeasuredUnit(function, task) for task in tasks))
        try:
            for result in results:
                if isinstance(result, BaseException):
                    yield result
                else:
                    self.peak = max(self.peak, result[1])
                    yield result[0]
        finally:
            if isinstance(results, Generator):
                results.close()

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


def _measured(call: _MeasuredUnit) -> tuple[Any, int]:
    return call.function(call.task), peak_memory()
