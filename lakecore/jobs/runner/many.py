"""This module runs a job on many tables: it has the one loop over tables, and the budget for the memory of
their plans.
"""

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
from lakecore.jobs.runner.report import JobReport
from lakecore.table import Table

__all__ = ["SerialCallbacks", "report_each", "reserved_memory"]

logger = logging.getLogger(__name__)

J = TypeVar("J")
R = TypeVar("R", bound=JobReport)


class SerialCallbacks:
    """This wrapper runs the callbacks of several threads one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, callback: Callable[..., None] | None, *values: Any) -> None:
        if callback is not None:
            with self._lock:
                callback(*values)


def report_each(
    jobs: Sequence[J],
    run: Callable[[J], R],
    blank: Callable[[J], R],
    *,
    tables: int = 1,
    on_done: Callable[[R], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> list[R]:
    """Return a report per job, in order. A job that raises does not stop the rest: its report is the one of
    `blank` with the error.

    `tables` jobs run at once, each in a thread. `on_done` is called with each report, from several threads,
    one at a time. An interruption calls `on_stop`, starts no further job, waits for the running ones and is
    raised. A single job without `on_stop` runs in the calling thread, where an interruption reaches it.
    """
    call = SerialCallbacks()

    def one(job: J) -> R:
        try:
            report = run(job)
        except Exception as err:  # the border of one table: it must not stop the others
            report = blank(job).failed(err)
            logger.exception("%s", report.table)
        call(on_done, report)
        return report

    if len(jobs) < 2 and on_stop is None:
        return [one(job) for job in jobs]
    threads = ThreadPoolExecutor(max(1, min(tables, len(jobs))), thread_name_prefix="tables")
    try:
        return list(threads.map(one, jobs))
    except BaseException:
        if on_stop is not None:
            on_stop()
        raise
    finally:
        threads.shutdown(cancel_futures=True)


@contextmanager
def reserved_memory(budget: PlanBudget | None, open_table: Callable[[], Table]) -> Iterator[None]:
    """Wait until the memory of a chore of the table fits into `budget`, and reserve it within the block.

    The estimate is that of a compaction plan: 3 kB for each entry of the latest manifests. A chore uses less
    than a tenth of that for a file that it removes, so older snapshots have room. It costs an opening of the
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
