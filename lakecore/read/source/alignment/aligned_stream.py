"""This module keeps the watermark of a stream in step with its position, and asks its group whether it may
read on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lakecore.errors import NotFoundError
from lakecore.read.source.alignment.rule import Standing, Wait
from lakecore.read.source.alignment.stream_watermark import StreamWatermark
from lakecore.read.source.stream import Changes, Stream
from lakecore.read.source.stream_offset import StreamOffset

__all__ = ["AlignedStream", "GroupMember"]


class GroupMember(Protocol):
    """It is the place of a stream in its group."""

    def wait(self, watermark: int | None) -> Wait | None:
        """Return for whom the stream waits with this watermark, None if it may read."""

    def report(self, standing: Standing, watermark: int | None, *, is_active: bool) -> None:
        """Tell the group where the stream is. A stream that is not active has looked for rows, and there were
        none.
        """

    def metrics(self) -> dict[str, Any]:
        """Return what is known of the group, as plain numbers."""


class AlignedStream:
    """It is the watermark of one stream, at the ends of its last micro-batch."""

    def __init__(
        self, member: GroupMember, watermark: StreamWatermark, stream_at: Callable[[int], Stream]
    ) -> None:
        """`stream_at` opens the stream with the changes of a snapshot."""
        self._member = member
        self._watermark = watermark
        self._stream_at = stream_at
        self._heights: dict[StreamOffset | None, int | None] = {None: None}
        self._height: int | None = None

    def may_read(self, start: StreamOffset) -> bool:
        """Return whether the micro-batch that begins at `start` may have rows.

        After a restart the watermark is that of the last snapshot with rows, if it is still there.
        """
        self._height = self._heights[start] if start in self._heights else self._height_at(start)
        self._heights = {start: self._height}
        if self._member.wait(self._height) is None:
            return True
        self._member.report(_standing(start, self._height), self._height, is_active=True)
        return False

    def pass_changes(self, changes: Changes) -> bool:
        """Take the watermark of changes of which a micro-batch has the last row. Return whether it may have
        more.
        """
        watermark = self._watermark.of_changes(changes)
        if watermark is not None:
            self._height = watermark if self._height is None else max(watermark, self._height)
        return self._member.wait(self._height) is None

    def end_at(self, start: StreamOffset, end: StreamOffset, *, has_ended: bool) -> None:
        """Tell the group how far the micro-batch goes that was planned."""
        self._heights[end] = self._height
        standing = Standing.ENDED if has_ended and end == start else _standing(end, self._height)
        self._member.report(standing, self._height, is_active=end != start)

    def metrics(self) -> dict[str, Any]:
        """Return the watermark, if there is one, and the metrics of the group."""
        own = {} if self._height is None else {"watermark": self._height}
        return own | self._member.metrics()

    def _height_at(self, start: StreamOffset) -> int | None:
        if start.seen_id is None or start.full is not None:
            return None
        try:
            changes = self._stream_at(start.seen_id).poll()
        except NotFoundError:
            return None
        if changes is None or changes.snapshot.id != start.seen_id:
            return None
        return self._watermark.of_changes(changes)


def _standing(position: StreamOffset, watermark: int | None) -> Standing:
    if watermark is not None:
        return Standing.READING
    has_read = position.seen_id is not None and position.full is None
    return Standing.WITHOUT_WATERMARK if has_read else Standing.BEFORE_FIRST
