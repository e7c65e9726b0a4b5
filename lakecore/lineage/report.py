"""This module gives events of lineage to the listeners."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.entry_points import has_entry_points, run_all
from lakecore.errors import explain, reason
from lakecore.lineage import openlineage
from lakecore.lineage.event import LineageDataset, LineageEvent

__all__ = [
    "has_listeners",
    "lineage_job",
    "report_failure",
    "report_read",
    "report_write",
    "without_lineage",
]

logger = logging.getLogger(__name__)

_GROUP = "lakecore.lineage"
_READ, _WRITE = "read", "write"
_Datasets = dict[tuple[str, str, str], LineageDataset]


@dataclass
class _Run:
    """It is a job that runs, and the tables of its events."""

    name: str
    run_id: str
    inputs: _Datasets = field(default_factory=dict)
    outputs: _Datasets = field(default_factory=dict)

    def add(self, event: LineageEvent) -> None:
        for datasets, more in ((self.inputs, event.inputs), (self.outputs, event.outputs)):
            datasets.update({(one.table_path, one.branch, one.system_table): one for one in more})


_run: ContextVar[_Run | None] = ContextVar("lakecore_lineage_run", default=None)
_is_silent: ContextVar[bool] = ContextVar("lakecore_lineage_silent", default=False)


@contextmanager
def lineage_job(name: str, run_id: str | None = None) -> Iterator[str]:
    """Give a name, and one run id, to the reads and writes in the body; yields the id, a fresh UUID unless
    one is given. Inside another job the outer one counts.

    If the body fails, the listeners get an event with the error, and with the tables of the events before.
    """
    outer = _run.get()
    if outer is not None:
        yield outer.run_id
        return
    run = _Run(name, run_id or SystemClock().fresh_id())
    token = _run.set(run)
    try:
        yield run.run_id
    except (GeneratorExit, SystemExit):
        raise
    except BaseException as err:
        report_failure(name, err)
        raise
    finally:
        _run.reset(token)


@contextmanager
def without_lineage() -> Iterator[None]:
    """Report no reads and writes of the body: somebody else does."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def has_listeners() -> bool:
    """Return whether there is a listener. Ask before an event is made, which may cost a read."""
    return not _is_silent.get() and (has_entry_points(_GROUP) or openlineage.is_configured())


def report_read(*datasets: LineageDataset) -> None:
    """Give a read to the listeners. It raises nothing."""
    _report(_event(_READ, SystemClock(), inputs=datasets))


def report_write(dataset: LineageDataset, rows: int | None, clock: Clock) -> None:
    """Give a commit to the listeners. It raises nothing."""
    _report(replace(_event(_WRITE, clock, outputs=(dataset,)), rows_written=rows))


def report_failure(job: str, err: BaseException) -> None:
    """Tell the listeners that a job failed, for one that keeps its error; it does nothing inside another job,
    which goes on. It raises nothing.
    """
    run = _run.get()
    if run is None or run.name != job or not has_listeners():
        return
    event = _event(job, SystemClock(), inputs=tuple(run.inputs.values()), outputs=tuple(run.outputs.values()))
    _report(replace(event, failure=explain(err) or type(err).__name__))


def _event(
    job: str,
    clock: Clock,
    *,
    inputs: tuple[LineageDataset, ...] = (),
    outputs: tuple[LineageDataset, ...] = (),
) -> LineageEvent:
    run = _run.get() or _Run(job, SystemClock().fresh_id())
    return LineageEvent(
        run_id=run.run_id, job=run.name, time_ms=clock.now_ms(), inputs=inputs, outputs=outputs
    )


def _report(event: LineageEvent) -> None:
    run = _run.get()
    if run is not None:
        run.add(event)
    subject = next((one.table_path for one in (*event.inputs, *event.outputs)), f"job {event.job}")
    what = "failed job" if event.failure is not None else _READ if event.inputs else _WRITE
    run_all(_GROUP, "lineage listener", [(event, subject, f"for the {what}, which is not affected")])
    if not openlineage.is_configured():
        return
    try:
        openlineage.send(event)
    except Exception as err:  # noqa: BLE001 - the read or the commit is done, whatever a server answers
        logger.warning("%s: OpenLineage did not take the event: %s", subject, reason(err))
