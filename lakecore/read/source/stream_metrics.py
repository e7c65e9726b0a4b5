"""This module has the metrics of a stream that is read in micro-batches, under the names that Paimon gives
them, where it has such a metric.
"""

from __future__ import annotations

from typing import Any

from lakecore.data_class import dataclass
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.change_pieces import Work, split_of
from lakecore.read.source.stream_offset import StreamOffset

__all__ = ["PlannedBatch", "stream_metrics"]


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """This is the micro-batch that was planned last, or the search that found no rows."""

    work: tuple[Work, ...] = ()
    duration_ms: int = 0
    last_rows_ms: int = 0
    """A micro-batch with rows was planned last at this time; 0 without one."""


def stream_metrics(
    end: StreamOffset | None, batch: PlannedBatch, newest: Snapshot, now_ms: int
) -> dict[str, Any]:
    """Return the metrics of a stream whose next micro-batch begins at `end`, as plain numbers.

    `newest` is the latest snapshot of the table. Times are in milliseconds, sizes in bytes. What is not known
    yet is missing.
    """
    splits = [split_of(part) for one in batch.work for _, part in one]
    metrics: dict[str, Any] = {
        "lastScanDuration": batch.duration_ms,
        "lastScanResultedTableFiles": sum(len(split.files) for split in splits),
        "splits": len(splits),
        "rows": sum(split.row_count for split in splits),
        "bytes": sum(split.size for split in splits),
    }
    if batch.last_rows_ms:
        metrics["sourceIdleTime"] = max(0, now_ms - batch.last_rows_ms)
    if end is None:
        return metrics
    metrics["snapshotsBehind"] = max(0, newest.id - end.next_snapshot + 1)
    if end.seen_id is None or end.seen_time is None:
        return metrics
    is_behind = metrics["snapshotsBehind"] > 0 or end.full is not None
    metrics["lastScannedSnapshotId"] = end.seen_id
    metrics["currentFetchEventTimeLag"] = max(0, now_ms - end.seen_time)
    metrics["snapshotLag"] = max(0, newest.time_millis - end.seen_time) if is_behind else 0
    return metrics
