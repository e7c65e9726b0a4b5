"""This module checks that a stream goes on where it was: same history, same columns, same parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.readable import Readable
from lakecore.read.source.stream_offset import StreamOffset

__all__ = [
    "check_columns",
    "check_history",
    "check_same",
    "last_snapshot_fields",
    "other_parts",
    "without_rows_fields",
]


def last_snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of an offset that tell which snapshot was the last one with rows."""
    return {
        "seen_id": snapshot.id,
        "seen_time": snapshot.time_millis,
        "without_rows_id": None,
        "without_rows_time": None,
    }


def without_rows_fields(snapshot: Snapshot) -> dict[str, Any]:
    """Return the fields of an offset that tell which snapshot came last, and had no rows."""
    return {"without_rows_id": snapshot.id, "without_rows_time": snapshot.time_millis}


def other_parts(table: str, offset: StreamOffset) -> InvalidInputError:
    """Return the error for parts that are others than those of which `offset` counts some."""
    snapshot = offset.next_snapshot if offset.parts_read else offset.full or offset.first_full
    what = "changes" if offset.parts_read else "state"
    return InvalidInputError(
        f"table {table}: a part of the {what} of snapshot {snapshot} was read, and its splits "
        "are others now: an option of the read was changed, or the table was rolled back; undo the "
        "change until the rest is read, or start with a new checkpoint"
    )


def check_history(table: Readable, offset: StreamOffset) -> None:
    """Raise NotFoundError if another snapshot has the id of the last one that the stream looked at."""
    has_rows = offset.without_rows_id is None
    number = offset.seen_id if has_rows else offset.without_rows_id
    time_millis = offset.seen_time if has_rows else offset.without_rows_time
    if number is not None:
        check_same(table, number, time_millis, "start with a new checkpoint")


def check_same(table: Readable, number: int, time_millis: int | None, remedy: str) -> None:
    """Raise NotFoundError if the snapshot exists and was committed at another time, in milliseconds: it took
    the id of one that is lost.
    """
    snapshot = table._stores.snapshots.find(number)
    if snapshot is not None and snapshot.time_millis != time_millis:
        raise NotFoundError(
            f"table {table.name}: snapshot {number} is not the one that the stream has read: the "
            f"table was rolled back or created again; {remedy}"
        )


def check_columns(table: Readable, columns: Iterable[str], snapshot: Snapshot) -> None:
    """Raise InvalidInputError if a later schema does not have the columns as they are read."""
    ours = table.schema
    if snapshot.schema_id <= ours.id:
        return
    later = {field.id: field for field in table._stores.schemas.load(snapshot.schema_id).fields}
    for name in columns:
        if name not in ours.row_type.names:  # a column of the log
            continue
        field = ours.row_type.field(name)
        other = later.get(field.id)
        if other is None or (other.name, other.type) != (field.name, field.type):
            change = "dropped" if other is None else f"changed to {other.name} {other.type}"
            raise InvalidInputError(
                f"table {table.name}: column {name} {field.type} was {change} in schema "
                f"{snapshot.schema_id}, and the stream reads it: start the query again with the new "
                "columns"
            )
