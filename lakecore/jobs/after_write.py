"""This module runs the expiry of snapshots that follows a write, unless the table is write-only."""

from __future__ import annotations

import logging

from lakecore.clock import Clock
from lakecore.errors import BusyError, LakeError
from lakecore.jobs import expire_snapshots
from lakecore.jobs.runner.chore import Lake, Report
from lakecore.maintain.retention_options import SNAPSHOT_MAX, SNAPSHOT_MIN
from lakecore.table import Table

__all__ = ["expire_after_write"]

logger = logging.getLogger(__name__)


def expire_after_write(table: Table, lake: Lake, clock: Clock | None = None) -> Report | None:
    """Expire snapshots by the table's options (`snapshot.num-retained.max`, …), as a writer does by the rule
    of the format.

    It returns None when there is nothing to expire. The run is the same as `expire-snapshots`, with its lease
    and its checks. Its errors are in the report, because the rows are already committed; a table that another
    chore holds is left to the next writer. The call costs a listing of the snapshots where there are few.
    """
    raw = table.schema.options
    if table.options.write_only:
        return None
    if len(table._stores.snapshots.list_ids()) <= min(SNAPSHOT_MIN.read(raw), SNAPSHOT_MAX.read(raw)):
        return None
    job = expire_snapshots.Job(table=table.name, options=dict(table._overrides))
    report = Report(table=table.name, job=expire_snapshots.NAME)
    try:
        return expire_snapshots.run(job, lake, None, clock)
    except BusyError as err:
        logger.info(
            "%s: the next writer expires the snapshots, because this one could not: %s", table.name, err
        )
        return Report(table=report.table, job=report.job, skipped=str(err))
    except LakeError as err:
        logger.error("%s: snapshots did not expire after the write: %s", table.name, err)
        return Report(table=report.table, job=report.job, error=str(err), error_class=type(err).__name__)
