"""This module cuts a stream into micro-batches, for engines that keep offsets and plan a batch again from two
of them.

A micro-batch has splits of the first state, or the changes of whole snapshots. Its plan depends on its two
offsets and the table only, so that it is the same after a crash; what cannot be the same is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.read.source.batch_limits import BatchLimits, BatchSize
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import Scan
from lakecore.read.source.stream import Changes, Stream, open_stream
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.scan.split import Split
from lakecore.scan.startup import Startup
from lakecore.scan.stream_start import StreamStart

__all__ = ["MicroBatches", "Work"]

Work: TypeAlias = tuple[tuple[Scan, Any], ...]
"""One task reads these parts in their order, each with its scan. It can be pickled."""


class MicroBatches:
    """It plans the micro-batches of one stream. It keeps the plan of the last one."""

    def __init__(
        self,
        table: Readable,
        startup: Startup,
        *,
        consumer: str | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Open the stream; for the errors see `open_stream`."""
        self._table = table
        self._startup = startup
        self._where = where
        self._first = open_stream(table, startup, consumer=consumer, where=where, columns=columns)
        self._columns = columns if columns is not None else table.schema.row_type.names
        self._begun: StreamOffset | None = None
        self._last: int | None = None
        self._planned: tuple[StreamOffset | None, StreamOffset, tuple[Work, ...]] | None = None

    def stop_at_latest(self) -> None:
        """Let micro-batches end at the snapshot that is the latest now."""
        self._last = self._table._stores.snapshots.latest_id() or 0

    def latest(self, start: StreamOffset | None, limits: BatchLimits) -> StreamOffset | None:
        """Return the end of the micro-batch that begins at `start`, which is `start` if there is nothing new.
        None is the start of a stream, and the end while the table has no snapshot.

        Raises NotFoundError when what comes next has expired, or the table was rolled back or created again,
        InvalidInputError when a column that is read was changed. It costs the plan of the micro-batch: the
        manifests of the first state, or those of each new snapshot; a read or two where there is none.
        """
        begin = start or self._begin()
        if begin is None:
            return None
        end, work = self._next(begin, limits)
        if end != begin:
            self._check_history(begin)
        self._planned = (start, end, work)
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
        return self._changes_again(begin, end)

    def acknowledge(self, end: StreamOffset) -> None:
        """Store for the consumer of the stream that all before `end` is safe; nothing without one."""
        if self._first.consumer is not None:
            self._first.acknowledge(end.needed)

    def _begin(self) -> StreamOffset | None:
        if self._begun is None:
            start = self._first.start
            if start is None or (self._last is not None and start.next_snapshot > self._last + 1):
                return None
            full = None if start.full is None else start.full.id
            self._begun = StreamOffset.begin(start.next_snapshot, full)
            self.acknowledge(self._begun)
        return self._begun

    def _next(self, start: StreamOffset, limits: BatchLimits) -> tuple[StreamOffset, tuple[Work, ...]]:
        if start.full is None:
            return self._next_changes(start, limits)
        state = self._state(start.full, start.next_snapshot)
        splits = list(state.parts)
        admitted = _count_admitted(splits[start.splits_read :], limits)
        read = start.splits_read + admitted
        end = replace(start, splits_read=read, plan=_digest(splits), **_latest_fields(state.snapshot))
        if start.plan:
            self._check_plan(start, end)
        if read >= len(splits):
            end = replace(end, full=None)
        return end, _alone(state.rows, splits[start.splits_read : read])

    def _next_changes(
        self, start: StreamOffset, limits: BatchLimits
    ) -> tuple[StreamOffset, tuple[Work, ...]]:
        stream = self._stream_at(start.next_snapshot)
        changes: list[Changes] = []
        reached = self._take(stream, changes, limits)
        if reached is None or reached == start.next_snapshot:
            return start, ()
        fields = _latest_fields(changes[-1].snapshot) if changes else {}
        end = replace(start, next_snapshot=reached, plan="", splits_read=0, **fields)
        return end, self._group(changes)

    def _take(self, stream: Stream, batch: list[Changes], limits: BatchLimits) -> int | None:
        """Poll until there is nothing new, or the micro-batch is full; returns the next snapshot then."""
        total, reached = BatchSize(), stream.next_snapshot
        while (changes := stream.poll()) is not None:
            total = total.plus(BatchSize.of(changes.parts, 1))
            if (batch and not limits.admit(total)) or not self._is_wanted(changes):
                return reached
            self._check_columns(changes.snapshot)
            batch.append(changes)
            reached = changes.next_snapshot
        return stream.next_snapshot

    def _is_wanted(self, changes: Changes) -> bool:
        return self._last is None or changes.snapshot.id <= self._last

    def _state(self, snapshot_id: int, next_snapshot: int) -> Changes:
        """Return the first state. Raises NotFoundError that names what is left when it has expired."""
        snapshot = self._table._stores.snapshots.load(snapshot_id)
        self._check_columns(snapshot)
        start = StreamStart(next_snapshot, snapshot, self._startup.created_ms)
        stream = open_stream(
            self._table, self._startup, next_snapshot=start, where=self._where, columns=self._columns
        ).poll()
        assert stream is not None
        return stream

    def _stream_at(self, next_snapshot: int) -> Stream:
        return open_stream(
            self._table,
            self._startup,
            next_snapshot=next_snapshot,
            where=self._where,
            columns=self._columns,
        )

    def _state_again(self, start: StreamOffset, end: StreamOffset) -> tuple[Work, ...]:
        assert start.full is not None
        state = self._state(start.full, start.next_snapshot)
        splits = list(state.parts)
        self._check_plan(end, replace(end, plan=_digest(splits)))
        return _alone(state.rows, splits[start.splits_read : end.splits_read])

    def _check_plan(self, expected: StreamOffset, actual: StreamOffset) -> None:
        if expected.plan != actual.plan:
            raise InvalidInputError(
                f"table {self._table.name}: a part of the state of snapshot "
                f"{expected.full or expected.first_full} was read, and its splits are others now: an option "
                "of the read was changed; undo that until the state is read, or start with a new checkpoint"
            )

    def _changes_again(self, start: StreamOffset, end: StreamOffset) -> tuple[Work, ...]:
        stream = self._stream_at(start.next_snapshot)
        batch: list[Changes] = []
        while (stream.next_snapshot or 0) < end.next_snapshot:
            changes = stream.poll()
            if changes is None or changes.snapshot.id >= end.next_snapshot:
                break
            self._check_columns(changes.snapshot)
            batch.append(changes)
        if (stream.next_snapshot or 0) < end.next_snapshot:
            raise NotFoundError(
                f"table {self._table.name}: a micro-batch that was planned ends before snapshot "
                f"{end.next_snapshot}, and the stream ends before {stream.next_snapshot} now: the table was "
                "rolled back or created again, or an option of the read was changed; start with a new "
                "checkpoint"
            )
        self._check_history(end)
        return self._group(batch)

    def _check_history(self, offset: StreamOffset) -> None:
        """Raise NotFoundError if another snapshot has the id of the last one that was read."""
        snapshot = None if offset.seen_id is None else self._table._stores.snapshots.find(offset.seen_id)
        if snapshot is not None and snapshot.time_millis != offset.seen_time:
            raise NotFoundError(
                f"table {self._table.name}: snapshot {snapshot.id} is not the one that the stream has read: "
                "the table was rolled back or created again; start with a new checkpoint"
            )

    def _check_columns(self, snapshot: Snapshot) -> None:
        """Raise InvalidInputError if a later schema does not have the columns as they are read."""
        ours = self._table.schema
        if snapshot.schema_id <= ours.id:
            return
        later = {field.id: field for field in self._table._stores.schemas.load(snapshot.schema_id).fields}
        for name in self._columns:
            field = ours.row_type.field(name)
            later_field = later.get(field.id)
            if later_field is None or (later_field.name, later_field.type) != (field.name, field.type):
                change = (
                    "dropped" if later_field is None else f"changed to {later_field.name} {later_field.type}"
                )
                raise InvalidInputError(
                    f"table {self._table.name}: column {name} {field.type} was {change} in schema "
                    f"{snapshot.schema_id}, and the stream reads it: start the query again with the new "
                    "columns"
                )

    def _group(self, batch: Sequence[Changes]) -> tuple[Work, ...]:
        """Return the parts of a bucket together; those of tables without buckets are on their own."""
        if self._table.options.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return tuple(work for changes in batch for work in _alone(changes.rows, changes.parts))
        groups: dict[tuple[bytes, int], list[tuple[Scan, Any]]] = {}
        for changes in batch:
            for part in changes.parts:
                split: Split = part[0] if isinstance(part, tuple) else part
                groups.setdefault((split.partition, split.bucket), []).append((changes.rows, part))
        return tuple(map(tuple, groups.values()))


def _alone(rows: Scan, parts: Sequence[Any]) -> tuple[Work, ...]:
    return tuple(((rows, part),) for part in parts)


def _latest_fields(snapshot: Snapshot) -> dict[str, Any]:
    return {"seen_id": snapshot.id, "seen_time": snapshot.time_millis}


def _count_admitted(splits: Sequence[Split], limits: BatchLimits) -> int:
    """Return how many splits a micro-batch takes; at least one, if there is one."""
    total = BatchSize()
    for number, split in enumerate(splits):
        total = total.plus(BatchSize.of([split]))
        if number and not limits.admit(total):
            return number
    return len(splits)


def _digest(splits: Sequence[Split]) -> str:
    digest = hashlib.sha256()
    for split in splits:
        digest.update(split.partition + split.bucket.to_bytes(4, "big", signed=True))
        for file in split.files:
            digest.update(file.file_name.encode() + b"\0")
    return digest.hexdigest()[:16]
