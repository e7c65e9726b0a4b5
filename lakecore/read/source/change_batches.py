"""This module plans the micro-batches of a stream after its first state: they have the changes of snapshots,
or a part of those of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.metadata.options import BucketMode
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.batch_limits import BatchLimits, BatchSize
from lakecore.read.source.change_pieces import (
    Piece,
    Work,
    by_bucket,
    count_admitted,
    cut_changes,
    plan_digest,
)
from lakecore.read.source.readable import Readable
from lakecore.read.source.stream import Changes, Stream
from lakecore.read.source.stream_checks import (
    check_columns,
    check_history,
    last_snapshot_fields,
    other_parts,
    without_rows_fields,
)
from lakecore.read.source.stream_offset import StreamOffset

__all__ = ["ChangeBatches"]


@dataclass(frozen=True)
class ChangeBatches:
    """It plans micro-batches of changes, and plans them again."""

    table: Readable
    columns: Sequence[str]
    stream_at: Callable[[int], Stream]
    """It opens the stream with the changes of a snapshot."""
    whole_buckets: bool
    """It tells whether the files of a bucket stay together."""

    def after(
        self,
        start: StreamOffset,
        limits: BatchLimits,
        last: int | None,
        read_on: Callable[[Changes], bool] | None = None,
    ) -> tuple[StreamOffset, tuple[Work, ...]]:
        """Return the end of the micro-batch that begins at `start`, and its work; it has no changes after the
        snapshot `last`, nor after changes for which `read_on` returns False.
        """
        stream, end, total = self.stream_at(start.next_snapshot), start, BatchSize()
        pieces: list[Piece] = []
        cuts = limits.cut_snapshots
        while (changes := stream.poll()) is not None and _is_wanted(changes, last):
            read = self._parts_read(start, changes.snapshot) if end is start else 0
            all_pieces = self._pieces(changes, cut=cuts or read > 0)
            if read:
                self._check_plan(start, start.parts_plan, all_pieces)
            parts = [part for _, part in all_pieces[read:]]
            count = self._count(parts, limits, total if pieces else None)
            if not count:
                return end, self._group(pieces)
            check_columns(self.table, self.columns, changes.snapshot)
            pieces += all_pieces[read : read + count]
            total = total.plus(BatchSize.of(parts[:count], 1))
            end = self._behind(start, changes, all_pieces, read + count)
            if end.parts_read or (read_on is not None and not read_on(changes)):
                return end, self._group(pieces)
        if changes is None and start.parts_read and end is start:
            raise other_parts(self.table.name, start)
        reached, passed = stream.next_snapshot, stream.last_snapshot
        if changes is None and reached is not None and passed is not None and reached > end.next_snapshot:
            end = replace(end, next_snapshot=reached, plan="", splits_read=0, **without_rows_fields(passed))
        return end, self._group(pieces)

    def _parts_read(self, start: StreamOffset, snapshot: Snapshot) -> int:
        """Return how many parts of the first changes are read. Raises InvalidInputError if the changes that
        were read in part are not there any more.
        """
        if start.parts_read and snapshot.id != start.next_snapshot:
            raise other_parts(self.table.name, start)
        return start.parts_read

    def _pieces(self, changes: Changes, *, cut: bool) -> tuple[Piece, ...]:
        if cut and not self.whole_buckets:
            return cut_changes(changes.rows, changes.parts, self.table.options)
        return tuple((changes.rows, part) for part in changes.parts)

    @staticmethod
    def _count(parts: Sequence[Any], limits: BatchLimits, before: BatchSize | None) -> int:
        if limits.cut_snapshots:
            return count_admitted(parts, limits, before, 1)
        fits = before is None or limits.admit(before.plus(BatchSize(snapshots=1)))
        return len(parts) if fits else 0

    @staticmethod
    def _behind(start: StreamOffset, changes: Changes, pieces: Sequence[Piece], count: int) -> StreamOffset:
        """Return the offset behind so many pieces of a snapshot."""
        at = replace(start, plan="", splits_read=0, **last_snapshot_fields(changes.snapshot))
        if count >= len(pieces):
            return replace(at, next_snapshot=changes.next_snapshot, parts_read=0, parts_plan="")
        plan = plan_digest(part for _, part in pieces)
        return replace(at, next_snapshot=changes.snapshot.id, parts_read=count, parts_plan=plan)

    def between(self, start: StreamOffset, end: StreamOffset) -> tuple[Work, ...]:
        """Return the work of a micro-batch that was planned before. Raises the errors of `after`."""
        stream = self.stream_at(start.next_snapshot)
        pieces: list[Piece] = []
        while (stream.next_snapshot or 0) < end.next_snapshot + (end.parts_read > 0):
            changes = stream.poll()
            if changes is None or changes.snapshot.id >= end.next_snapshot + (end.parts_read > 0):
                break
            read = start.parts_read if changes.snapshot.id == start.next_snapshot else 0
            upto = end.parts_read if changes.snapshot.id == end.next_snapshot else None
            all_pieces = self._pieces(changes, cut=bool(read or upto))
            for offset, counted in ((start, read), (end, upto)):
                if counted:
                    self._check_plan(offset, offset.parts_plan, all_pieces)
            check_columns(self.table, self.columns, changes.snapshot)
            pieces += all_pieces[read:upto]
        if (stream.next_snapshot or 0) < end.next_snapshot:
            raise NotFoundError(
                f"table {self.table.name}: a micro-batch that was planned ends before snapshot "
                f"{end.next_snapshot}, and the stream ends before {stream.next_snapshot} now: the table was "
                "rolled back or created again, or an option of the read was changed; start with a new "
                "checkpoint"
            )
        check_history(self.table, end)
        return self._group(pieces)

    def _check_plan(self, offset: StreamOffset, expected: str, pieces: Sequence[Piece]) -> None:
        if plan_digest(part for _, part in pieces) != expected:
            raise other_parts(self.table.name, offset)

    def _group(self, pieces: Sequence[Piece]) -> tuple[Work, ...]:
        """Return the parts of a bucket together; those of tables without buckets are on their own."""
        if self.table.options.bucket_mode is BucketMode.BUCKET_UNAWARE:
            return tuple((piece,) for piece in pieces)
        return by_bucket(pieces)


def _is_wanted(changes: Changes, last: int | None) -> bool:
    return last is None or changes.snapshot.id <= last
