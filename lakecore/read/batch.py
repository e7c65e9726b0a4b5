"""What a batch read reads: a state, the changes of an interval, or the difference of two states."""

from __future__ import annotations

from dataclasses import replace

from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.changed_rows import ChangedRows, DiffRows
from lakecore.read.no_rows import NoRows
from lakecore.read.readable import Readable
from lakecore.read.scan import RowSource
from lakecore.read.snapshot_rows import SnapshotRows
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.scan.history import History, changelogs_live_longer
from lakecore.scan.incremental import Difference, Interval, resolve_interval
from lakecore.scan.startup import Incremental, Startup, StartupMode
from lakecore.scan.support import check_streamable
from lakecore.scan.travel import BatchStart, Travel, batch_start

__all__ = ["batch_source", "history_of", "named_start"]


def named_start(table: Readable, travel: Travel, incremental: Incremental | None) -> Startup:
    """What was asked by name, else what the options of the table say. Raises InvalidOptionError."""
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


def batch_source(table: Readable, startup: Startup, *, deletes: bool = False) -> RowSource:
    """Chooses the snapshots; nothing of them is read yet. `deletes`: a difference tells what is gone.

    Raises NotFoundError naming what there is, UnsupportedError for what this release cannot read.
    """
    if startup.incremental is not None:
        return _changes(table, startup.incremental, deletes=deletes)
    start = batch_start(startup, table.schema.options, history_of(table), table.tags)
    schema = _schema_for(table, start)
    table.scanner.check(schema)
    return SnapshotRows(table.scanner, table.read_context(schema), start.snapshot, start.created_ms)


def history_of(table: Readable) -> History:
    """Snapshots, and changelogs where the options keep them longer."""
    return History(table.snapshots, table.changelogs, changelogs_live_longer(table.schema.options))


def _schema_for(table: Readable, start: BatchStart) -> TableSchema:
    """That of a travelled snapshot; else the handle's, unless the snapshot has a newer one."""
    found = start.snapshot
    if found is not None and (start.travelled or found.schema_id > table.schema.id):
        return schema_of(table, found)
    return table.schema


def schema_of(table: Readable, snapshot: Snapshot) -> TableSchema:
    """The schema of a snapshot, with the options of the handle."""
    if snapshot.schema_id == table.schema.id:
        return table.schema
    schema = table.schemas.load(snapshot.schema_id)
    return replace(schema, options={**schema.options, **table.overrides})


def _changes(table: Readable, asked: Incremental, *, deletes: bool) -> RowSource:
    schema, options = table.schema, table.options
    check_streamable(table.name, schema, options)
    found = resolve_interval(asked, options.changelog_producer, schema.options, table.snapshots, table.tags)
    scanner = ChangeScanner(table.scanner, schema)
    context = table.read_context()
    match found:
        case None:
            return NoRows(schema.row_type)
        case Difference():
            table.scanner.check(schema)
            return DiffRows(scanner, context, found, deletes)
        case Interval(first, last):
            loaded = (table.snapshots.load(snapshot_id) for snapshot_id in range(first, last + 1))
            wanted = tuple(snapshot for snapshot in loaded if found.wants(snapshot))
            return ChangedRows(scanner, context, wanted, found.kind)
