"""A job is run by the module that its definition names, which is imported only then."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lakecore.jobs.definitions.table_job import Definition

if TYPE_CHECKING:
    from lakecore.clock import Clock
    from lakecore.executor import Executor
    from lakecore.jobs.runner.chore import Report
    from lakecore.jobs.runner.lake import Lake

__all__ = ["run_chore"]


def run_chore(
    job: Definition, lake: Lake, executor: Executor | None = None, clock: Clock | None = None
) -> Report:
    """Run a chore. Raises the errors of its module."""
    module = importlib.import_module(f"lakecore.jobs.{job.module}")
    report: Report = module.run(job, lake, executor, clock)
    return report
