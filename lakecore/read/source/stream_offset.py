"""This module has the position of a stream that is read in micro-batches, as JSON for an engine's
checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError

__all__ = ["StreamOffset"]

_WITH_PARTS = 2
_WITHOUT_PARTS = 1
"""Releases that know this version read whole snapshots of changes."""
_WITHOUT_ROWS = 3
"""Releases that know this version compare snapshots without rows, too."""
_OF_LATER_VERSIONS = ("parts_read", "parts_plan", "without_rows_id", "without_rows_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """This is what a stream has read: the rows before it are in earlier micro-batches.

    It also says where the stream began, because an engine that failed in its first micro-batch knows only the
    end of it.
    """

    next_snapshot: int
    """The changes of this snapshot are read next, after the first state."""
    full: int | None = None
    """The first state, of this snapshot, is not read to its end."""
    splits_read: int = 0
    """So many splits of the first state are read."""
    plan: str = ""
    """It identifies the splits of the first state, of which this offset or the one before counts some."""
    parts_read: int = 0
    """So many parts of the changes of `next_snapshot` are read."""
    parts_plan: str = ""
    """It identifies these parts."""
    first_next: int
    """The stream began with the changes of this snapshot, after the first state."""
    first_full: int | None = None
    """The stream began with the state of this snapshot; None if it began with changes."""
    seen_id: int | None = None
    """This snapshot was the last one with rows."""
    seen_time: int | None = None
    """That snapshot was committed at this time, in milliseconds; another one is not of the same history."""
    without_rows_id: int | None = None
    """This later snapshot had no rows for the stream, and was the last one before `next_snapshot`."""
    without_rows_time: int | None = None
    """That snapshot was committed at this time, in milliseconds."""

    @classmethod
    def begin(cls, next_snapshot: int, full: int | None) -> StreamOffset:
        """Return the offset of a stream that has read nothing."""
        return cls(next_snapshot=next_snapshot, full=full, first_next=next_snapshot, first_full=full)

    @property
    def start(self) -> StreamOffset:
        """Return the offset at which the stream began."""
        return StreamOffset.begin(self.first_next, self.first_full)

    @property
    def needed(self) -> int:
        """Return the first snapshot that is still needed."""
        return self.next_snapshot if self.full is None else self.full

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        values = asdict(self)
        if self.without_rows_id is not None:
            return {"version": _WITHOUT_ROWS, **values}
        older = {key: value for key, value in values.items() if key not in _OF_LATER_VERSIONS}
        if self.parts_read:
            parts = {"parts_read": self.parts_read, "parts_plan": self.parts_plan}
            return {"version": _WITH_PARTS, **older, **parts}
        return {"version": _WITHOUT_PARTS, **older}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> StreamOffset:
        """Check and read an offset. Raises UnsupportedError for a later version, InvalidInputError."""
        version = raw.get("version") if isinstance(raw, Mapping) else None
        if version not in (_WITHOUT_PARTS, _WITH_PARTS, _WITHOUT_ROWS):
            raise UnsupportedError(
                f"an offset of a stream has version {version!r}, and this release knows {_WITHOUT_PARTS} to "
                f"{_WITHOUT_ROWS}; use the release that wrote the checkpoint, or a later one"
            )
        values = {key: value for key, value in raw.items() if key != "version"}
        texts = ("plan", "parts_plan")
        types = {one.name: (str,) if one.name in texts else (int, type(None)) for one in fields(cls)}
        wrong = [key for key, value in values.items() if type(value) not in types.get(key, ())]
        needed = ("next_snapshot", "first_next", "splits_read", *(("parts_read",) if version > 1 else ()))
        missing = [key for key in needed if values.get(key) is None]
        if wrong or missing:
            raise InvalidInputError(
                f"an offset of a stream has wrong or missing fields ({', '.join([*wrong, *missing])}); the "
                "checkpoint is damaged, or of another source"
            )
        return cls(**values)
