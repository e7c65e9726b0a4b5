"""This module cuts a stream into micro-batches, for engines that keep offsets and plan a batch again from two
of them.

A micro-batch has splits of the first state, or changes: those of whole snapshots, or, where a limit asks for
it, files of changes of one. Its plan depends on its two offsets and the table only, so that it is the same
after a crash; what cannot be the same is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.metadata.option_rules.event_times import EventTimeRule
from lakecore.read.source.alignment.aligned_stream import AlignedStream, GroupMember
from lakecore.read.source.alignment.stream_watermark import StreamWatermark
from lakecore.read.source.batch_limits import BatchLimits
from lakecore.read.source.change_batches import ChangeBatches
from lakecore.read.source.change_pieces import Work, count_admitted, plan_digest, split_of
from lakecore.read.source.lineage.read_versions import report_reads
from lakecore.read.source.readable import Readable
from lakecore.read.source.stream import Changes, Stream, open_stream
from lakecore.read.source.stream_checks import (
    check_columns,
    check_history,
    last_snapshot_fields,
    other_parts,
    without_rows_fields,
)
from lakecore.read.source.stream_metrics import PlannedBatch, stream_metrics
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.read.source.stream_view import StreamSelection
from lakecore.scan.startup import Startup
from lakecore.scan.stream_start import StreamStart

__all__ = ["MicroBatches", "Work"]


class MicroBatches:
    """It plans the micro-batches of one stream. It keeps the plan of the last one."""

    def __init__(
        self,
        table: Readable,
        startup: Startup,
        selection: StreamSelection,
        *,
        consumer: str | None = None,
        group: GroupMember | None = None,
    ) -> None:
        """Open the stream, which waits for others of its `group`. For the errors see `open_stream` and
        `EventTimeRule`.
        """
        self._table = table
        self._startup = startup
        self._selection = selection
        self._first = open_stream(table, startup, selection, consumer=consumer)
        self._last_batch_ms = self._idle_until_ms = 0
        self._batch = PlannedBatch()
        whole = selection.view.needs_whole_buckets
        self._changes = ChangeBatches(table, selection.columns.names, self._stream_at, whole)
        self._opened = self._first
        self._aligned = None if group is None else self._aligned_stream(group)
        self._planned_state: _FirstState | None = None
        self._begun: StreamOffset | None = None
        self._last: int | None = None
        self._planned: tuple[StreamOffset | None, StreamOffset, tuple[Work, ...]] | None = None

    def stop_at_latest(self) -> None:
        """Let micro-batches end at the snapshot that is the latest now."""
        self._last = self._table._stores.snapshots.latest_id() or 0

    def leave_group(self) -> None:
        """Wait for no other stream from now on."""
        self._aligned = None

    def latest(self, start: StreamOffset | None, limits: BatchLimits) -> StreamOffset | None:
        """Return the end of the micro-batch that begins at `start`, which is `start` if there is nothing new.
        None is the start of a stream, and the end while the table has no snapshot.

        Raises NotFoundError when what comes next has expired, or the table was rolled back or created again,
        InvalidInputError when a column that is read was changed. It costs the plan of the micro-batch: the
        manifests of the first state, or those of each new snapshot; a read or two where there is none.
        """
        now = self._table._stores.clock.now_ms()
        if start is not None and now < self._idle_until_ms:
            return start
        begin = start or self._begin()
        if begin is None:
            return None
        if self._aligned is not None and not self._aligned.may_read(begin):
            return start
        end, work = self._next(begin, limits)
        if self._aligned is not None:
            self._aligned.end_at(begin, end, has_ended=self._opened.ended)
        duration_ms = self._table._stores.clock.now_ms() - now
        self._batch = PlannedBatch(work, duration_ms, now if work else self._batch.last_rows_ms)
        if end == begin:
            self._idle_until_ms = now + (limits.wait.discovery_ms or 0)
        elif self._last is None and limits.wait.holds_back(_row_count(work), now - self._last_batch_ms):
            return start
        else:
            check_history(self._table, begin)
            self._last_batch_ms = now
        self._planned = (start, end, work)
        if end != begin:
            report_reads({id(scan): scan for one in work for scan, _ in one}.values())
        return end

    def work(self, start: StreamOffset | None, end: StreamOffset) -> tuple[Work, ...]:
        """Return what the tasks of a micro-batch read, as `latest` planned it, in this process or another.

        Changes of one bucket are in one piece of work, in their order. Raises the errors of `latest`.
        """
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]
        begin = end.start if start is None else start
        if begin.full is not None:
            return self._state_again(begin, end)
        return self._changes.between(begin, end)

    def metrics(self, end: StreamOffset | None) -> dict[str, Any] | None:
        """Return the metrics of the stream after the last call of `latest`, which returned `end`; None while
        the table has no snapshot.

        It finds and reads the newest snapshot. For the metrics see `stream_metrics`.
        """
        newest = self._table._stores.snapshots.latest()
        if newest is None:
            return None
        metrics = stream_metrics(end, self._batch, newest, self._table._stores.clock.now_ms())
        return metrics if self._aligned is None else metrics | self._aligned.metrics()

    def acknowledge(self, end: StreamOffset) -> None:
        """Store for the consumer of the stream that all before `end` is safe; nothing without one. While the
        first state is not read to its end, a stream that begins at the consumer reads all of it.
        """
        if self._first.consumer is not None:
            reads_state = end.full is not None
            self._table._stores.consumers.write(self._first.consumer, end.needed, reads_state=reads_state)

    def _begin(self) -> StreamOffset | None:
        if self._begun is None:
            start = self._first.start
            if start is None or (self._last is not None and start.next_snapshot > self._last + 1):
                return None
            full = None if start.full is None else start.full.id
            begun, before = StreamOffset.begin(start.next_snapshot, full), self._first.last_snapshot
            self._begun = begun if before is None else replace(begun, **without_rows_fields(before))
            self.acknowledge(self._begun)
        return self._begun

    def _next(self, start: StreamOffset, limits: BatchLimits) -> tuple[StreamOffset, tuple[Work, ...]]:
        if start.full is None:
            read_on = None if self._aligned is None else self._aligned.pass_changes
            return self._changes.after(start, limits, self._last, read_on)
        state = self._state(start.full, start.next_snapshot)
        if start.plan and start.plan != state.digest:
            raise other_parts(self._table.name, start)
        read = start.splits_read + count_admitted(state.splits[start.splits_read :], limits)
        end = replace(
            start, splits_read=read, plan=state.digest, **last_snapshot_fields(state.changes.snapshot)
        )
        if read >= len(state.splits):
            end = replace(end, full=None)
            if self._aligned is not None:
                self._aligned.pass_changes(state.changes)
        return end, state.work(start.splits_read, read)

    def _state(self, snapshot_id: int, next_snapshot: int) -> _FirstState:
        """Return the first state, which is planned once. Raises NotFoundError that names what is left when it
        has expired.
        """
        snapshot = self._table._stores.snapshots.load(snapshot_id)
        if self._planned_state is None or self._planned_state.changes.snapshot != snapshot:
            check_columns(self._table, self._selection.columns.names, snapshot)
            start = StreamStart(next_snapshot, snapshot, self._startup.created_ms)
            changes = self._stream_at(start).poll()
            assert changes is not None
            self._planned_state = _FirstState.of(changes)
        return self._planned_state

    def _stream_at(self, next_snapshot: int | StreamStart) -> Stream:
        self._opened = open_stream(self._table, self._startup, self._selection, next_snapshot=next_snapshot)
        return self._opened

    def _aligned_stream(self, group: GroupMember) -> AlignedStream:
        rule = EventTimeRule.of_reads(self._table.schema.row_type, self._table.schema.options)
        return AlignedStream(group, StreamWatermark(self._table, rule), self._stream_at)

    def _state_again(self, start: StreamOffset, end: StreamOffset) -> tuple[Work, ...]:
        assert start.full is not None
        state = self._state(start.full, start.next_snapshot)
        if end.plan != state.digest:
            raise other_parts(self._table.name, end)
        return state.work(start.splits_read, end.splits_read)


@dataclass(frozen=True)
class _FirstState:
    """It is the plan of the first state."""

    changes: Changes
    splits: Sequence[Any]
    digest: str

    @classmethod
    def of(cls, changes: Changes) -> _FirstState:
        digest = plan_digest(changes.parts)
        return cls(changes, tuple(changes.parts), digest)

    def work(self, first: int, end: int) -> tuple[Work, ...]:
        """Return the work of these splits, each on its own."""
        return tuple(((self.changes.rows, split),) for split in self.splits[first:end])


def _row_count(work: Sequence[Work]) -> int:
    """Return how many rows the tasks read, before they are merged."""
    return sum(split_of(part).row_count for one in work for _, part in one)
