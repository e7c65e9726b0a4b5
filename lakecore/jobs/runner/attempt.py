"""This module records an attempt of a job: when it begins, and how it ends.

The record is an observation. A job never fails because of it: when storage refuses a record, the job goes on
and the log says so. It costs two writes an attempt, a third where the run has a
budget, and one attempt of ten also tidies the ledger. Dry runs
write nothing and are not recorded. An attempt on a whole lake, such as a survey, has an empty name as its
table.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from lakecore.clock import Clock
from lakecore.data_class import dataclass
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
from lakecore.executor import Executor
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.metered import AttemptMeter, MeteredExecutor, WorkerUse
from lakecore.jobs.runner.origin import counted_run, origin
from lakecore.jobs.runner.report import JobReport
from lakecore.lineage.report import lineage_job, report_failure
from lakecore.maintain.attempts.record import Attempt, AttemptState
from lakecore.maintain.attempts.store import AttemptStore
from lakecore.maintain.forecast.plan import Forecast
from lakecore.maintain.table_key import table_key
from lakecore.maintain.usage import Usage, UsageStore

__all__ = ["AttemptEnd", "record_left", "recorded"]

logger = logging.getLogger(__name__)

_LONGEST_TEXT = 2000
_FIGURES = ("files", "bytes", "spared", "run", "snapshot", "resumed", "files_in", "files_out")
_MORE_FIGURES = ("bytes_in", "bytes_out", "rows_in", "rows_out", "picks_done", "picks_left", "engine")
_EXPECTED = ("seconds", "seconds_low", "seconds_high", "memory", "based_on")
_TIDIED_BY = 10
"""One attempt of so many, by its id, puts older days of the ledger into one file each: a lake without surveys
has nobody else who does.
"""
_SHAPE = ("files", "bytes", "rows", "snapshots", "sorted_runs")


@dataclass
class AttemptEnd:
    """This is where a job leaves its report, and the error that ended it early."""

    report: JobReport | None = None
    error: BaseException | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    """These are figures that are not in a report."""
    forecast: Forecast | None = None
    """This is what the work was expected to take."""
    use: WorkerUse = field(default_factory=WorkerUse)
    """This is what the units take in other processes."""

    def metered(self, executor: Executor) -> MeteredExecutor:
        """Return an executor that adds what its units take elsewhere to the cost of the attempt."""
        return MeteredExecutor(executor, self.use)


@contextmanager
def recorded(lake: Lake, table: str, job: str, clock: Clock, *, enabled: bool = True) -> Iterator[AttemptEnd]:
    """Record the attempt around the body. The body leaves its report, or its error, in what this gives; an
    error that leaves the body is recorded and raised. Nothing is recorded unless `enabled`.
    """
    with lineage_job(job), _record(lake, table, job, clock, enabled=enabled) as end:
        yield end
        if end.error is not None:
            report_failure(job, end.error)


@contextmanager
def _record(lake: Lake, table: str, job: str, clock: Clock, *, enabled: bool) -> Iterator[AttemptEnd]:
    if not enabled:
        yield AttemptEnd()
        return
    started_ms, meter = clock.now_ms(), AttemptMeter()
    end = AttemptEnd(use=meter.workers)
    begun = _begun_attempt(lake, table, job, clock.fresh_id(), started_ms)
    try:
        yield end
    except BaseException as err:
        end.error = err
        raise
    finally:
        cost = meter.stop()
        if begun is not None:
            ended = _store(lake, lambda: _end_of(begun, end, clock.now_ms(), cost))
            _add_to_the_run(lake, ended)
            if end.error is None:
                _tidy_sometimes(lake, begun.id, clock)


def record_left(lake: Lake, table: str, job: str, clock: Clock, why: str) -> None:
    """Record that a job was not begun on a table, because its time or its budget was over: a survey counts
    the table as late then. It costs one write, and never fails.
    """
    now_ms = clock.now_ms()
    _store(
        lake,
        lambda: Attempt(
            id=clock.fresh_id(),
            table=table_key(table),
            job=job,
            state=AttemptState.LEFT,
            started_ms=now_ms,
            finished_ms=now_ms,
            origin=origin(),
            figures={"left_because": _text(why)},
        ),
    )


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


def _end_of(one: Attempt, end: AttemptEnd, now_ms: int, cost: Mapping[str, Any]) -> Attempt:
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
        forecast={} if end.forecast is None else {name: getattr(end.forecast, name) for name in _EXPECTED},
        cost=cost,
    )


def _state(end: AttemptEnd, raw: Mapping[str, Any]) -> AttemptState:
    match end.error:
        case None:
            if raw.get("on_hold"):
                return AttemptState.ON_HOLD
            if raw.get("picks_left") and not raw.get("picks_done"):
                return AttemptState.LEFT
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


def _add_to_the_run(lake: Lake, ended: Attempt | None) -> None:
    """Add what an attempt used to the sum of its run, where the run has a budget."""
    key = counted_run()
    if key is None or ended is None:
        return
    size = int(ended.figures.get("bytes_in") or ended.figures.get("bytes") or 0)
    usage = Usage(size, float(ended.cost.get("core_seconds") or 0))
    try:
        UsageStore(lake.file_io, lake.warehouse).add(key, ended.id, usage)
    except Exception as err:  # noqa: BLE001 - the job is done; this must not make it fail
        logger.warning("what an attempt used is missing from the budget of its run: %s", err)


def _tidy_sometimes(lake: Lake, name: str, clock: Clock) -> None:
    """Tidy the ledger if the id of the attempt is one of those that do. What fails, a later one does."""
    if zlib.crc32(name.encode()) % _TIDIED_BY:
        return
    try:
        AttemptStore(lake.file_io, lake.warehouse).tidy(clock)
        UsageStore(lake.file_io, lake.warehouse).tidy(clock.now_ms())
    except Exception as err:  # noqa: BLE001 - the job is done; this must not make it fail
        logger.warning("old records of the ledger were not removed: %s", err)


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
