"""This module has the command `run-job`, which runs a job that is a file in the warehouse."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from lakecore.cli.engine import SparkOptions
from lakecore.cli.output import print_json
from lakecore.cli.session import Session, session_of
from lakecore.cli.stop_signals import stopped_by_signals
from lakecore.errors import InvalidInputError, LakeError, printable

__all__ = ["run_job"]

_PART = "/.lakecore/jobs/"


def run_job(
    context: typer.Context,
    job: Annotated[
        str,
        typer.Argument(help="Run this job: its id, or the path of its folder, which names the warehouse."),
    ],
    engine: SparkOptions,
    submission: Annotated[
        str, typer.Option(help="Name the submission; a cancellation of this name stops the run.")
    ] = "",
) -> None:
    """Run a job that was submitted as a file in the warehouse, and write its progress and result there."""
    from lakecore.clock import SystemClock
    from lakecore.jobs.remote.record import RunState
    from lakecore.jobs.remote.runner import JobRunner
    from lakecore.jobs.remote.store import JobStore

    session, job_id = _place(session_of(context), job)
    catalog = session.catalog
    store = JobStore(catalog.file_io, catalog.warehouse, SystemClock())
    with stopped_by_signals() as stop, engine.executor() as executor:
        result = JobRunner(store, catalog, executor, stop=stop).run(job_id, submission)
    if session.json:
        print_json(session.out, result.to_json())
    else:
        lines = [f"job {job_id}: {result.state.value} after {result.seconds:.1f} s {result.reason}".rstrip()]
        lines += [f"{one.command}: {one.state.value} {one.error or ''}".rstrip() for one in result.steps]
        session.out.print("\n".join(printable(line) for line in lines), markup=False)
    if result.state is not RunState.DONE:
        first = next((one.error for one in result.steps if one.error), result.reason)
        raise LakeError(f"job {job_id} {result.state.value}: {first}")


def _place(session: Session, job: str) -> tuple[Session, str]:
    """Return the session with the warehouse of the job, and the id of the job."""
    if "/" not in job:
        return session, job
    warehouse, separator, job_id = job.rstrip("/").removesuffix("/job.json").rpartition(_PART)
    if not separator or not warehouse:
        raise InvalidInputError(f"{job!r} is no job; give its id, or WAREHOUSE{_PART}ID")
    if session.warehouse is not None or session.catalog_name is not None:
        raise InvalidInputError("the path of a job names its warehouse; leave --warehouse and --catalog out")
    return replace(session, warehouse=warehouse), job_id
