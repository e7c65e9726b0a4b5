"""This module chooses what a batch read reads: a state, the changes of an interval, or the difference of two
states.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.errors import NotFoundError
from lakecore.metadata.option_rules.reading_options import check_batch_options, names_interval
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.time_travel import schema_as_of
from lakecore.options import Option
from lakecore.read.source.changed_rows import ChangedRows, DiffRows
from lakecore.read.source.fallback_rows import FallbackRows
from lakecore.read.source.no_rows import NoRows
from lakecore.read.source.readable import Readable
from lakecore.read.source.resolve_blobs import with_resolved_blobs
from lakecore.read.source.scan import RowSource
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.scan.history import History, changelogs_live_longer
from lakecore.scan.incremental import Difference, Interval, resolve_interval
from lakecore.scan.startup import Incremental, Startup, StartupMode
from lakecore.scan.support import check_streamable
from lakecore.scan.time_travel import BatchStart, TimeTravel, batch_start, snapshot_at

__all__ = ["batch_source", "check_given_options", "history_of", "named_start", "schema_at"]

FALLBACK_BRANCH = Option("scan.fallback-branch", str.strip, "", "Stands in for partitions that are missing.")
PRIMARY_BRANCH = Option("scan.primary-branch", str.strip, "", "Its partitions are read in place of ours.")
_FIRST = 1


def named_start(table: Readable, travel: TimeTravel, incremental: Incremental | None) -> Startup:
    """Return the start that the caller requested, else that of the table's options. Raises
    InvalidOptionError.
    """
    if incremental is not None:
        return Startup(mode=StartupMode.INCREMENTAL, incremental=incremental)
    if travel.is_latest:
        return Startup.from_options(table.schema.options)
    return Startup(
        mode=StartupMode.FROM_SNAPSHOT if travel.timestamp_ms is None else StartupMode.FROM_TIMESTAMP,
        snapshot=travel.snapshot,
        tag=travel.tag,
        timestamp_ms=travel.timestamp_ms,
        watermark=travel.watermark,
        version=travel.version,
    )


def check_given_options(table: Readable, startup: Startup, *, is_log: bool = False) -> None:
    """Raise InvalidOptionError for an option of the handle that a batch read from this start does not obey.

    `is_log`: `$audit_log` or `$binlog` is read.
    """
    by_options = (
        startup.mode is StartupMode.INCREMENTAL
        and names_interval(table._overrides)
        and startup == Startup.from_options(table.schema.options)
    )
    check_batch_options(table._overrides, is_log=is_log, is_interval=by_options)


def batch_source(table: Readable, startup: Startup, *, deletes: bool = False) -> RowSource:
    """Choose the snapshots without reading any rows. With `deletes` a difference includes removed rows.

    Raises NotFoundError naming what exists, UnsupportedError for what this release cannot read.
    """
    if startup.incremental is not None:
        return with_resolved_blobs(
            _changes(table, startup.incremental, deletes=deletes), table._read_context()
        )
    rows = _state(table, startup)
    return with_resolved_blobs(_with_fallback(table, startup, rows), rows.context)


def _with_fallback(table: Readable, startup: Startup, rows: SnapshotRows) -> RowSource:
    for key in (FALLBACK_BRANCH, PRIMARY_BRANCH):
        branch = key.read(table.schema.options)
        if branch and branch != table._stores.paths.branch:
            other = table.at_branch(branch)
            stand_in = _state(other, _same_time(startup, rows, other))
            pair = (rows, stand_in) if key is FALLBACK_BRANCH else (stand_in, rows)
            return FallbackRows(*pair, main=rows)
    return rows


def _state(table: Readable, startup: Startup) -> SnapshotRows:
    start = batch_start(startup, table.schema.options, history_of(table), table._stores.tags)
    schema = schema_at(table, start)
    table._scanner.check(schema)
    return SnapshotRows(table._scanner, table._read_context(schema), start.snapshot, start.created_ms)


def _same_time(startup: Startup, rows: SnapshotRows, other: Readable) -> Startup:
    """Translate the start to another branch, where ids mean nothing: its last snapshot until then, or else
    the first.
    """
    if startup.snapshot is None or rows.snapshot is None:
        return startup
    try:
        snapshot = snapshot_at(rows.snapshot.time_millis, other._stores.snapshots)
    except NotFoundError:
        return replace(startup, snapshot=_FIRST)
    return replace(startup, snapshot=snapshot.id)


def history_of(table: Readable) -> History:
    """Return the snapshots, and the changelogs where the options keep them longer."""
    return History(
        table._stores.snapshots, table._stores.changelogs, changelogs_live_longer(table.schema.options)
    )


def schema_at(table: Readable, start: BatchStart) -> TableSchema:
    """Return the schema of a time-travelled snapshot; else the handle's, unless the snapshot has a newer
    one.
    """
    snapshot = start.snapshot
    if snapshot is not None and (start.uses_snapshot_schema or snapshot.schema_id > table.schema.id):
        return schema_of(table, snapshot)
    return table.schema


def schema_of(table: Readable, snapshot: Snapshot) -> TableSchema:
    """Return the schema of a snapshot with the options of the handle; of an older one those that it
    overrides.
    """
    if snapshot.schema_id == table.schema.id:
        return table.schema
    schema = table._stores.schemas.load(snapshot.schema_id)
    if schema.id < table.schema.id:
        return schema_as_of(schema, table.schema, table._overrides)
    return replace(schema, options={**schema.options, **table._overrides})


def _changes(table: Readable, request: Incremental, *, deletes: bool) -> RowSource:
    schema, options = table.schema, table.options
    check_streamable(table.name, schema)
    interval = resolve_interval(
        request, options.changelog_producer, schema.options, table._stores.snapshots, table._stores.tags
    )
    scanner = ChangeScanner(table._scanner, schema)
    context = table._read_context()
    match interval:
        case None:
            return NoRows(f"{table.name}, no changes", schema.row_type)
        case Difference():
            table._scanner.check(schema)
            return DiffRows(scanner, context, interval, deletes)
        case Interval(first, last):
            loaded = (table._stores.snapshots.load(snapshot_id) for snapshot_id in range(first, last + 1))
            snapshots = tuple(snapshot for snapshot in loaded if interval.selects(snapshot))
            return ChangedRows(scanner, context, snapshots, interval.kind)
