"""One chore on many tables: several at once, each with its own report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from lakecore.clock import SystemClock
from lakecore.errors import BusyError, LakeError
from lakecore.jobs.chore import Report, Safety
from lakecore.jobs.lake import Lake
from lakecore.maintain.quarantine import purge_quietly
from lakecore.maintain.runs import RunStore

__all__ = ["TABLES_AT_ONCE", "run_many"]

logger = logging.getLogger(__name__)

J = TypeVar("J")

TABLES_AT_ONCE = 4
"""Each asks storage for several files at once by itself."""


def run_many(
    jobs: Sequence[J],
    run: Callable[[J], Report],
    *,
    at_once: int = TABLES_AT_ONCE,
    on_done: Callable[[Report], None] | None = None,
    purging: Lake | None = None,
) -> list[Report]:
    """One report per job, in order. A failed one does not stop the rest: its report has an `error`; of
    several, one whose table another chore holds is `skipped`.

    Memory: that of `at_once` jobs, and a report each. `on_done` is called from several threads. `purging`:
    the lake whose quarantine is purged once at the end, instead of by each job (that reads the runs of all
    tables).
    """
    if len(jobs) < 2:
        return [_told(_tried(job, run, alone=True), on_done) for job in jobs]
    each = [job if purging is None else _without_purge(job) for job in jobs]
    with ThreadPoolExecutor(min(at_once, len(jobs)), thread_name_prefix="chores") as pool:
        try:
            reports = list(pool.map(lambda job: _told(_tried(job, run, alone=False), on_done), each))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if purging is not None:
        _purge(purging, jobs, reports)
    return reports


def _tried(job: J, run: Callable[[J], Report], *, alone: bool) -> Report:
    table, name = str(getattr(job, "table", "")), type(job).__name__
    try:
        return run(job)
    except LakeError as err:
        logger.error("%s of %s failed: %s", name, table, err)
        if isinstance(err, BusyError) and not alone:
            return Report(table=table, job=name, skipped=str(err))
        return Report(table=table, job=name, error=str(err), error_class=type(err).__name__)
    except Exception as err:
        # The border of one table: whatever went wrong with it must not stop the others.
        logger.exception("%s of %s", name, table)
        problem = f"unexpected {type(err).__name__}: {err} (--verbose shows where; please report it)"
        return Report(table=table, job=name, error=problem, error_class=type(err).__name__)


def _told(report: Report, on_done: Callable[[Report], None] | None) -> Report:
    if on_done is not None:
        on_done(report)
    return report


def _without_purge(job: J) -> J:
    safety = getattr(job, "safety", None)
    if not isinstance(safety, Safety):
        return job
    changed: Any = job
    return replace(changed, safety=replace(safety, purges=False))  # type: ignore[no-any-return]


def _purge(lake: Lake, jobs: Sequence[Any], reports: Sequence[Report]) -> None:
    runs = RunStore(lake.file_io, lake.warehouse, SystemClock())
    kept = [(job, report) for job, report in zip(jobs, reports, strict=True) if report.quarantined]
    done = [(job.safety, report) for job, report in kept if not report.dry_run and report.error is None]
    for number, (safety, report) in enumerate(done):
        if number == 0:
            ttl, cap = safety.quarantine_ttl_ms, safety.quarantine_cap
            purge_quietly(runs, report.table, ttl_ms=ttl, cap=cap)
        elif report.run is not None:
            try:
                runs.forget(report.table)
            except LakeError as err:
                logger.warning("old lines of the ledger of %s stay: %s", report.table, err)
