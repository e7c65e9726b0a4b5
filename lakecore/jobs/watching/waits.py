"""This module names the conditions that a task may wait for in a table: new snapshots, a tag, partitions
that are done.

A wait is a name and a JSON object, so that it can be sent to a process that waits on behalf of a task. A
check returns a small JSON object, or None while the condition does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals, Memo
from lakecore.maintain.lease.lease import holder
from lakecore.maintain.partitions.mark_done import MARK_DONE_ACTION
from lakecore.metadata.json_record import json_object
from lakecore.metadata.options import TableOptions
from lakecore.row.partition_path import parse_partitions, partition_path, partition_text
from lakecore.table import Table

__all__ = ["LEASE_FREE", "NEW_SNAPSHOTS", "PARTITIONS_DONE", "TAG", "look"]

NEW_SNAPSHOTS = "new-snapshots"
"""Its request has `after` and the fields of `ArrivalCondition`; its answer has `first`, `last` and
`count`.
"""
TAG = "tag"
"""Its request has `tag`; its answer has `tag`, and `snapshot`, `time_millis` and `watermark` of its
snapshot.
"""
PARTITIONS_DONE = "partitions-done"
"""Its request has `partitions`, which must all be done; its answer has `partitions`, and `modified_millis`
of the newest mark.
"""
LEASE_FREE = "lease-free"
"""Its request has `until_ms`, when the wait is over in any case; its answer has `until_ms` and whether the
lease is `free`. The table is not opened.
"""

_SUCCESS = "_SUCCESS"
_SUCCESS_FILE = "success-file"


class Tables(Protocol):
    """This is the part of a catalog that a check uses."""

    @property
    def file_io(self) -> FileIO: ...

    @property
    def warehouse(self) -> str: ...

    def load_table(self, name: str) -> Table: ...


def look(
    wait: str, tables: Tables, table: str, request: Mapping[str, Any], memo: Memo | None = None
) -> dict[str, Any] | None:
    """Check once. Raises NotFoundError for a table that does not exist, InvalidInputError for a condition
    that can never hold, UnavailableError.
    """
    if wait == LEASE_FREE:
        return _lease_free(tables, table, request)
    opened = tables.load_table(table)
    if wait == NEW_SNAPSHOTS:
        arrivals = Arrivals(opened, ArrivalCondition.from_json(request), {} if memo is None else memo).after(
            int(request["after"])
        )
        return None if arrivals is None else arrivals.to_json()
    return _LOOKS[wait](opened, request)


def _lease_free(tables: Tables, table: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check whether nobody holds the lease of a table. It costs a listing and a small read."""
    now_ms, until_ms = SystemClock().now_ms(), int(request["until_ms"])
    free = holder(tables.file_io, tables.warehouse, table, now_ms) is None
    return {"free": free, "until_ms": until_ms} if free or now_ms >= until_ms else None


def _tag(table: Table, request: Mapping[str, Any]) -> dict[str, Any] | None:
    name = str(request["tag"])
    if table._stores.file_io.stat(table._stores.paths.tag(name)) is None:
        return None
    try:
        snapshot = table._stores.tags.load(name)
    except NotFoundError:
        return None  # deleted just now
    return {
        "tag": name,
        "snapshot": snapshot.id,
        "time_millis": snapshot.time_millis,
        "watermark": snapshot.watermark,
    }


def _partitions_done(table: Table, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check the marks of partitions. A mark that another engine is writing just now has the time at which it
    becomes visible.
    """
    partition_type, text = table.schema.partition_type, str(request["partitions"])
    options = TableOptions.from_schema(table.schema)
    actions = MARK_DONE_ACTION.read(table.schema.options)
    if _SUCCESS_FILE not in [action.strip() for action in actions.split(",")]:
        raise UnsupportedError(
            f"table {table.name}: option {MARK_DONE_ACTION.key}={actions}: only a mark by "
            f"{_SUCCESS_FILE} can be waited for; add it to the option"
        )
    names, newest = [], 0
    for spec in parse_partitions(text, partition_type, options.partition_default_name):
        missing = [name for name in partition_type.names if name not in spec]
        if missing:
            raise InvalidInputError(f"partitions {text!r}: one of them has no value of {', '.join(missing)}")
        row = [spec[name] for name in partition_type.names]
        below = partition_path(
            row, partition_type, options.partition_default_name, options.partition_legacy_name
        )
        try:
            mark = table._stores.file_io.read(f"{table._stores.paths.table_path}/{below}/{_SUCCESS}")
        except NotFoundError:
            return None
        names.append(partition_text(row, partition_type))
        newest = max(newest, _modification_time(mark))
    return {"partitions": names, "modified_millis": newest or None}


def _modification_time(mark: bytes) -> int:
    """Return the time of a mark; it is zero for marks of engines that write an empty file."""
    try:
        return int(json_object(mark)["modificationTime"])
    except (ValueError, KeyError, TypeError):
        return 0


_LOOKS: Mapping[str, Callable[[Table, Mapping[str, Any]], dict[str, Any] | None]] = {
    TAG: _tag,
    PARTITIONS_DONE: _partitions_done,
}
