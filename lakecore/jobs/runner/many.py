"""A job on many tables: each table has a thread, and a budget limits the memory of their plans."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from lakecore.compact.pool.pool import PlanBudget
from lakecore.compact.pool.weight import plan_bytes
from lakecore.errors import LakeError
from lakecore.table import Table

__all__ = ["SerialCallbacks", "for_each_table", "reserved_memory", "unexpected_error_text"]

logger = logging.getLogger(__name__)

J = TypeVar("J")
R = TypeVar("R")


class SerialCallbacks:
    """This wrapper runs the callbacks of several threads one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, callback: Callable[..., None] | None, *told: Any) -> None:
        if callback is not None:
            with self._lock:
                callback(*told)


def for_each_table(
    jobs: Sequence[J], work: Callable[[J], R], at_once: int, on_stop: Callable[[], None] = lambda: None
) -> list[R]:
    """Return a result per job, in order. An interruption calls `on_stop`, starts no further table, waits for
    the running ones and is raised.
    """
    threads = ThreadPoolExecutor(max(1, min(at_once, len(jobs))), thread_name_prefix="tables")
    try:
        return list(threads.map(work, jobs))
    except BaseException:
        on_stop()
        raise
    finally:
        threads.shutdown(cancel_futures=True)


@contextmanager
def reserved_memory(budget: PlanBudget | None, open_table: Callable[[], Table]) -> Iterator[None]:
    """Wait until the memory of a chore of the table fits into `budget`, and reserve it within the block.

    The estimate is that of a compaction plan: 3 kB for each entry of the latest manifests. A chore uses less
    than a tenth of that for a file that it removes, so older snapshots have room. Costs an opening of the
    table and its manifest lists. A table that cannot be opened reserves nothing: its job will say why.
    """
    if budget is None:
        yield
        return
    try:
        table = open_table()
        size = plan_bytes(table._scanner)
    except LakeError:
        size = 0
    with budget.holding(size):
        yield


def unexpected_error_text(err: Exception) -> str:
    """Return the text that a report has for an error that is none of lakecore's."""
    return f"unexpected {type(err).__name__}: {err} (--verbose shows where; please report it)"
