"""This module gives events of lineage to the listeners."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lakecore.clock import Clock, SystemClock
from lakecore.entry_points import has_entry_points, run_all
from lakecore.errors import reason
from lakecore.lineage import openlineage
from lakecore.lineage.event import LineageDataset, LineageEvent

__all__ = ["has_listeners", "lineage_job", "report_read", "report_write"]

logger = logging.getLogger(__name__)

_GROUP = "lakecore.lineage"
_READ, _WRITE = "read", "write"
_job: ContextVar[tuple[str, str] | None] = ContextVar("lakecore_lineage_job", default=None)


@contextmanager
def lineage_job(name: str, run_id: str | None = None) -> Iterator[str]:
    """Give a name, and one run id, to the reads and writes in the body; yields the id, a fresh UUID unless
    one is given. Inside another job the outer one counts.
    """
    outer = _job.get()
    if outer is not None:
        yield outer[1]
        return
    own = run_id or SystemClock().fresh_id()
    token = _job.set((name, own))
    try:
        yield own
    finally:
        _job.reset(token)


def has_listeners() -> bool:
    """Return whether there is a listener. Ask before an event is made, which may cost a read."""
    return has_entry_points(_GROUP) or openlineage.is_configured()


def report_read(dataset: LineageDataset) -> None:
    """Give a read to the listeners. It raises nothing."""
    _report(_READ, SystemClock(), (dataset,), (), None)


def report_write(dataset: LineageDataset, rows: int | None, clock: Clock) -> None:
    """Give a commit to the listeners. It raises nothing."""
    _report(_WRITE, clock, (), (dataset,), rows)


def _report(
    job: str,
    clock: Clock,
    inputs: tuple[LineageDataset, ...],
    outputs: tuple[LineageDataset, ...],
    rows: int | None,
) -> None:
    name, run_id = _job.get() or (job, SystemClock().fresh_id())
    event = LineageEvent(
        run_id=run_id, job=name, time_ms=clock.now_ms(), inputs=inputs, outputs=outputs, rows_written=rows
    )
    table_path = (*inputs, *outputs)[0].table_path
    run_all(_GROUP, "lineage listener", [(event, table_path, f"for the {job}, which is not affected")])
    if not openlineage.is_configured():
        return
    try:
        openlineage.send(event)
    except Exception as err:  # noqa: BLE001 - the read or the commit is done, whatever a server answers
        logger.warning("%s: OpenLineage did not take the event: %s", table_path, reason(err))
