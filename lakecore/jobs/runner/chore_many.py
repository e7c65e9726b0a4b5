"""This module runs one chore on many tables: several run at once, each with its own report."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lakecore.clock import SystemClock
from lakecore.compact.pool.pool import PlanBudget
from lakecore.errors import BusyError, LakeError, OnHoldError, explain
from lakecore.jobs.runner.chore import Report
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.limits import Limits
from lakecore.jobs.runner.many import report_each, reserved_memory
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.deletion.quarantine import try_purge
from lakecore.maintain.deletion.runs import RunStore

__all__ = ["TABLES_AT_ONCE", "run_many"]

logger = logging.getLogger(__name__)

J = TypeVar("J")

TABLES_AT_ONCE = 4
"""Each of these tables asks storage for several files at once by itself."""
_LIMITS = Limits(tables=TABLES_AT_ONCE)


def run_many(
    jobs: Sequence[J],
    run: Callable[[J], Report],
    lake: Lake,
    *,
    limits: Limits = _LIMITS,
    on_done: Callable[[Report], None] | None = None,
    passes_over: bool = True,
) -> list[Report]:
    """Return one report per job, in order. A failed job does not stop the rest: its report has an `error`. A
    job that a hold stops is `held`, not failed.

    When there are several jobs, a job whose table another chore holds is `skipped` if that is no failure:
    with `passes_over`, or when the job does not wait for the lease.

    Memory stays within `limits`, plus a report each. `on_done` is called from several threads, one at a time.
    The quarantine is purged once at the end, instead of by each job (that reads the runs of all tables).
    """
    if len(jobs) < 2:
        return report_each(jobs, partial(_run, run, passes_over=False), _blank, on_done=on_done)
    budget = PlanBudget(limits.plan_bytes)

    def one(job: Any) -> Report:
        with reserved_memory(budget, lambda: lake.load_table(job.table, job.options)):
            return _run(run, _without_purge(job), passes_over=passes_over and not job.safety.wait_ms)

    reports = report_each(jobs, one, _blank, tables=limits.tables, on_done=on_done)
    _purge(lake, jobs, reports)
    return reports


def _blank(job: object) -> Report:
    return Report(table=str(getattr(job, "table", "") or getattr(job, "target", "")), job=_name(job))


def _run(run: Callable[[J], Report], job: J, *, passes_over: bool) -> Report:
    """Run the job and return its report; an error that lakecore raised is in the report."""
    report = _blank(job)
    try:
        return run(job)
    except OnHoldError as err:
        logger.warning("%s", err)
        return replace(report, on_hold=str(err))
    except LakeError as err:
        if isinstance(err, BusyError) and passes_over:
            logger.warning(
                "%s of %s was not finished and is left to the next run: %s", report.job, report.table, err
            )
            return replace(report, skipped=str(err))
        logger.error("%s of %s failed: %s", report.job, report.table, explain(err))
        return report.failed(err)


def _name(job: object) -> str:
    """Return the name of the job in its reports: `create-tag`, `expire-snapshots`."""
    kind = type(job)
    if kind.__name__ == "Job":
        return kind.__module__.rpartition(".")[2].replace("_", "-")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def _without_purge(job: Any) -> Any:
    return replace(job, safety=replace(job.safety, purges=False))


def _purge(lake: Lake, jobs: Sequence[Any], reports: Sequence[Report]) -> None:
    runs = RunStore(lake.file_io, lake.warehouse, SystemClock())
    pending = [(job, report) for job, report in zip(jobs, reports, strict=True) if report.quarantined]
    purges = [(job.safety, report) for job, report in pending if not report.dry_run and report.error is None]
    for number, (safety, report) in enumerate(purges):
        if number == 0:
            ttl, cap = safety.quarantine_ttl_ms, safety.quarantine_cap
            try_purge(runs, report.table, grants_of(lake).may_change, ttl_ms=ttl, cap=cap)
        elif report.run is not None:
            try:
                runs.forget(report.table)
            except LakeError as err:
                logger.warning("old records of the ledger of %s could not be removed: %s", report.table, err)
