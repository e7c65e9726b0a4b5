"""An executor whose units take their time after their work is done: tests kill them then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakecore.executor import Executor

__all__ = ["SlowExecutor"]


class SlowExecutor:
    """`inner`, but every unit sleeps between writing its files and returning them."""

    def __init__(self, inner: Executor, seconds: float = 120) -> None:
        self._inner = inner
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        return self._inner.run(_slowly, ((function, task, self._seconds) for task in tasks))


def _slowly(call: tuple[Callable[[Any], Any], Any, float]) -> Any:
    function, task, seconds = call
    result = function(task)
    time.sleep(seconds)
    return result
