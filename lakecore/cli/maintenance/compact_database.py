"""This module has `compact-database`, which compacts all tables of a warehouse, or those that patterns
match.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from lakecore.cli.engine import EngineOptions
from lakecore.cli.job_options import JobOptions
from lakecore.cli.maintenance.compact import print_reports
from lakecore.cli.maintenance.follow_query import FollowJob, follow_as_query
from lakecore.cli.maintenance.following import Following, check_following, follow_tables
from lakecore.cli.option_groups import Concurrency
from lakecore.cli.output import end_on_errors, print_json
from lakecore.cli.session import Session, session_of
from lakecore.cli.table_bars import table_bars
from lakecore.clock import SystemClock
from lakecore.jobs.definitions.compaction import CompactDatabase

if TYPE_CHECKING:
    from lakecore.executor import Executor
    from lakecore.jobs.compact import Report

__all__ = ["compact_database"]


def compact_database(
    context: typer.Context,
    options: JobOptions[CompactDatabase],
    engine: EngineOptions,
    concurrency: Concurrency,
    following: Following,
) -> None:
    """Compact the tables of all databases, many at once; large tables share one stream of Spark jobs."""
    session = session_of(context)
    limits = concurrency.limits()
    job = options.job(max_concurrent_tables=limits.tables, max_plan_bytes=limits.plan_bytes)
    check_following(context, following, dry_run=job.dry_run)
    if following.follow and following.checkpoint is not None:
        _follow_as_query(session, job, engine, following)
        return
    if following.follow:
        with engine.executor(soon=True) as workers:
            from lakecore.jobs import compact_database as jobs

            follower = jobs.follower(job, session.catalog, workers)
            follow_tables(session, following, follower, workers, partial(print_reports, session))
        return
    with engine.executors(soon=not job.dry_run) as engines, table_bars(session) as bars:
        from lakecore.jobs import compact_database as jobs
        from lakecore.jobs.compact import Callbacks

        callbacks = Callbacks(on_tables=bars.tables, on_progress=bars.progress, on_done=bars.finish)
        report = jobs.run(job, session.catalog, engines, SystemClock(), callbacks)
    if session.json:
        print_json(session.out, report.to_json())
    else:
        if reports := [one for one in report.tables if not one.nothing_to_do]:
            print_reports(session, reports)
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.counts().items())
        session.out.print(f"{counts}; {report.seconds:.1f} s", markup=False)
    end_on_errors(session, report.tables)


def _follow_as_query(
    session: Session, job: CompactDatabase, engine: EngineOptions, following: Following
) -> None:
    from lakecore.jobs import compact_database as jobs

    rounds, catalog = jobs.without_run(job), session.catalog

    def run(names: Sequence[str], workers: Executor) -> Sequence[Report]:
        return jobs.run_on(names, rounds, catalog, workers)

    work = FollowJob(jobs.PatternNames(rounds, catalog), run, repr(rounds))
    follow_as_query(session, following, engine, work, partial(print_reports, session))
