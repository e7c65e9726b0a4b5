"""This module runs jobs of units in threads and returns their results in order; how a job runs on Spark, and
how it is cancelled, is for its callers to say.
"""

from __future__ import annotations

import itertools
import pickle
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnavailableError

__all__ = ["Inbox", "NumberedResult", "UnitJob", "UnitJobs"]

_NUMBERS = itertools.count()
_ENDED_CONTEXT = re.compile("SparkContext (has been|was) shut ?down|stopped SparkContext")
"""It is what Spark says of its context, which it ends itself where no master registers the application."""

NumberedResult: TypeAlias = tuple[int, bytes]
Inbox: TypeAlias = "queue.SimpleQueue[NumberedResult | BaseException | None]"
"""It gets pickled results with the numbers of their units, then None or the error that ended the job."""


@dataclass(frozen=True, slots=True)
class UnitJob:
    """It is a job of pickled units, by the functions that run and cancel it under a name of its own."""

    payloads: Sequence[bytes]
    run: Callable[[str, Sequence[bytes], Inbox], None]
    """It runs the units, puts results, and None. What it raises ends the job: a LakeError is the result of
    each unit without one, and another error is named in their UnavailableError.
    """
    cancel: Callable[[str, threading.Thread], None]
    """It cancels the job of that name, which the thread runs or is going to start."""


class UnitJobs:
    """These are the jobs of an executor that are under way."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: dict[str, tuple[UnitJob, threading.Thread]] = {}
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self.has_failed = False
        """It tells whether a unit has failed."""

    @property
    def is_cancelled(self) -> bool:
        """Return whether `cancel` was called: every later job has no results."""
        return self._cancelled.is_set()

    def results(self, job: UnitJob) -> Iterator[Any]:
        """Yield unpickled results in the order of the units. A unit that Spark lost yields an error.

        Leaving the iterator early cancels what still runs.
        """
        name = f"{self._name}-{id(self)}-{next(_NUMBERS)}"
        inbox: Inbox = queue.SimpleQueue()
        thread = threading.Thread(target=_run, args=(job, name, inbox), daemon=True)
        with self._lock:
            if self._cancelled.is_set():
                return
            self._jobs[name] = job, thread
            thread.start()
        complete = False
        try:
            yield from self._in_order(inbox, len(job.payloads))
            complete = True
        finally:
            with self._lock:
                self._jobs.pop(name, None)
            if not complete and thread.is_alive():
                job.cancel(name, thread)
            thread.join()

    def cancel(self) -> None:
        """Stop running units; every later job has no results."""
        self._cancelled.set()
        with self._lock:
            jobs = tuple(self._jobs.items())
        for name, (job, thread) in jobs:
            job.cancel(name, thread)

    def _in_order(self, inbox: Inbox, count: int) -> Iterator[Any]:
        """Yield unpickled results by number; after a failed job, its error for each unit that returned
        none.
        """
        waiting: dict[int, bytes] = {}
        failure: BaseException | None = None
        ended = False
        for number in range(count):
            while number not in waiting and not ended:
                item = inbox.get()
                if isinstance(item, tuple):
                    waiting[item[0]] = item[1]
                else:
                    failure, ended = item, True
            if number in waiting:
                result = pickle.loads(waiting.pop(number))
            elif self._cancelled.is_set():
                return
            else:
                result = failure if isinstance(failure, LakeError) else _lost_error(number, count, failure)
            self.has_failed |= isinstance(result, BaseException)
            yield result


def _run(job: UnitJob, name: str, inbox: Inbox) -> None:
    try:
        job.run(name, job.payloads, inbox)
        inbox.put(None)
    except Exception as err:  # noqa: BLE001 - the border of a thread: the reader of the inbox raises it
        inbox.put(err)


def _lost_error(number: int, count: int, failure: BaseException | None) -> UnavailableError:
    reason = _reason(failure)
    if _ENDED_CONTEXT.search(reason):
        cause = "the application was ended from outside, or what answers at the address is no Spark master"
    else:
        cause = "its worker may have been killed for lack of memory, or its executor lost"
    error = UnavailableError(
        f"Spark gave no result for unit {number + 1} of {count}: {reason}; {cause}: look at Spark's logs, "
        "then run again"
    )
    error.__cause__ = failure
    return error


def _reason(failure: BaseException | None) -> str:
    """Return the line of Spark's report that names the cause."""
    java = getattr(failure, "java_exception", None)
    text = str(java.getMessage() if java is not None else failure)
    return text.strip().split("\n", 1)[0]
