"""This module records an attempt of a job: when it begins, and how it ends.

The record is an observation. A job never fails because of it: when storage refuses a record, the job goes on
and the log says so. It costs two writes an attempt. Dry runs write nothing and are not recorded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lakecore.clock import Clock
from lakecore.errors import (
    BusyError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    OnHoldError,
    explain,
    mask_secrets,
    printable,
)
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.metered import peak_memory
from lakecore.jobs.runner.origin import origin
from lakecore.jobs.runner.report import JobReport
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.table_key import table_key

__all__ = ["AttemptEnd", "recorded"]

logger = logging.getLogger(__name__)

_LONGEST_TEXT = 2000
_FIGURES = ("files", "bytes", "spared", "run", "snapshot", "resumed", "files_in", "files_out")
_MORE_FIGURES = ("bytes_in", "bytes_out", "rows_in", "rows_out", "picks_done", "picks_left", "engine")
_SHAPE = ("files", "bytes", "rows", "snapshots", "sorted_runs")

_lock = threading.Lock()
_begun = 0
"""The number of attempts that this process has begun, and of those that run now."""
_running = 0


@dataclass
class AttemptEnd:
    """This is where a job leaves its report, and the error that ended it early."""

    report: JobReport | None = None
    error: BaseException | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    """These are figures that are not in a report."""


@contextmanager
def recorded(lake: Lake, table: str, job: str, clock: Clock, *, enabled: bool = True) -> Iterator[AttemptEnd]:
    """Record the attempt around the body. The body leaves its report, or its error, in what this gives; an
    error that leaves the body is recorded and raised. Nothing is recorded unless `enabled`.
    """
    if not enabled:
        yield AttemptEnd()
        return
    end, started_ms, meter = AttemptEnd(), clock.now_ms(), _Meter()
    begun = _begun_attempt(lake, table, job, clock.fresh_id(), started_ms)
    try:
        yield end
    except BaseException as err:
        end.error = err
        raise
    finally:
        cost = meter.stop()
        if begun is not None:
            _store(lake, lambda: _ended(begun, end, clock.now_ms(), cost))


def _begun_attempt(lake: Lake, table: str, job: str, name: str, started_ms: int) -> Attempt | None:
    """Return the attempt, whose begin is now stored if storage did so; None when it can have no record."""
    return _store(
        lake,
        lambda: Attempt(
            id=name,
            table=table_key(table),
            job=job,
            state=AttemptState.RUNNING,
            started_ms=started_ms,
            origin=origin(),
        ),
    )


def _ended(one: Attempt, end: AttemptEnd, now_ms: int, cost: Mapping[str, Any]) -> Attempt:
    """Return the record of the end of an attempt."""
    error, raw = end.error, {} if end.report is None else end.report.to_json()
    figures = dict(end.figures) | {name: raw[name] for name in (*_FIGURES, *_MORE_FIGURES) if name in raw}
    for name in ("before", "after"):
        shape = raw.get(name)
        if isinstance(shape, dict):
            figures[name] = {key: shape[key] for key in _SHAPE if key in shape}
    text = explain(error) if isinstance(error, LakeError) else str(error)
    return replace(
        one,
        state=_state(end, raw),
        finished_ms=now_ms,
        error=None if error is None else _text(text),
        error_class=None if error is None else type(error).__name__,
        figures=figures,
        cost=cost,
    )


def _state(end: AttemptEnd, raw: Mapping[str, Any]) -> AttemptState:
    match end.error:
        case None:
            if raw.get("held"):
                return AttemptState.ON_HOLD
            return AttemptState.NOTHING if raw.get("nothing_to_do") else AttemptState.DONE
        case BusyError():
            return AttemptState.BUSY
        case OnHoldError():
            return AttemptState.ON_HOLD
        case InvalidInputError() | NotFoundError():
            return AttemptState.REFUSED
        case Exception():
            return AttemptState.FAILED
        case _:
            return AttemptState.KILLED


class _Meter:
    """It measures what an attempt takes of this process. Time of the processor and memory are known only when
    no other attempt ran in the process meanwhile; those of Spark's workers are not in them.
    """

    def __init__(self) -> None:
        global _begun, _running  # they count for the process
        with _lock:
            _begun += 1
            _running += 1
            self._number, self._alone = _begun, _running == 1
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def stop(self) -> dict[str, Any]:
        global _running
        with _lock:
            _running -= 1
            alone = self._alone and self._number == _begun
        cpu = round(time.process_time() - self._cpu, 3) if alone else None
        seconds = round(time.monotonic() - self._wall, 3)
        return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak_memory() if alone else None}


def _store(lake: Lake, make: Callable[[], Attempt]) -> Attempt | None:
    """Store the record that `make` returns, and return it, also when storage refuses it."""
    one: Attempt | None = None
    try:
        one = make()
        AttemptStore(lake.file_io, lake.warehouse).save(one)
    except Exception as err:  # noqa: BLE001 - an observation that is lost must not stop the job
        logger.warning("an attempt is not recorded: %s", err)
    return one


def _text(text: str) -> str:
    return printable(mask_secrets(text), _LONGEST_TEXT)
