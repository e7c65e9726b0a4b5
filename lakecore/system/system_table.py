"""The system tables of a table, `db.t$files`: they are read like a table, and never written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.option_rules.reading_options import check_poll_options
from lakecore.metadata.options import MergeEngine
from lakecore.options import Option, parse_bool
from lakecore.predicate.tree import Predicate
from lakecore.read.source.batch import batch_source, check_given_options, history_of, named_start, schema_at
from lakecore.read.source.changed_rows import ChangedRows, DiffRows
from lakecore.read.source.fallback_rows import FallbackRows
from lakecore.read.source.lineage.read_versions import ReadVersion
from lakecore.read.source.readable import Readable
from lakecore.read.source.resolve_blobs import ResolvedBlobRows, with_resolved_blobs, without_resolved_blobs
from lakecore.read.source.scan import RowSource, Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.read.source.stream import Stream, open_stream, stream_startup
from lakecore.read.source.stream_view import StreamSelection, StreamView
from lakecore.scan.filters import ScanFilter
from lakecore.scan.startup import Incremental, Startup
from lakecore.scan.time_travel import TimeTravel, batch_start
from lakecore.system.change_log import AuditRows, BinlogRows
from lakecore.system.counts import BUCKETS, MANIFESTS, PARTITIONS, TABLE_INDEXES
from lakecore.system.files import FILE_KEY_RANGES, FILES
from lakecore.system.names import BRANCHES, CONSUMERS, TAGS
from lakecore.system.row_tracking import TrackedRows
from lakecore.system.snapshots import AGGREGATION_FIELDS, OPTIONS, SCHEMAS, SNAPSHOTS, STATISTICS
from lakecore.system.streams import stream_view
from lakecore.system.view import Listing, ViewRows
from lakecore.types.datatypes import RowType

__all__ = ["SYSTEM_TABLES", "SystemTable"]

SHOW_SEQUENCE = Option("table-read.sequence-number.enabled", parse_bool, False, "Logs show sequence numbers.")

_LISTINGS: Mapping[str, Listing] = {
    "aggregation_fields": AGGREGATION_FIELDS,
    "branches": BRANCHES,
    "buckets": BUCKETS,
    "consumers": CONSUMERS,
    "file_key_ranges": FILE_KEY_RANGES,
    "files": FILES,
    "manifests": MANIFESTS,
    "options": OPTIONS,
    "partitions": PARTITIONS,
    "schemas": SCHEMAS,
    "snapshots": SNAPSHOTS,
    "statistics": STATISTICS,
    "table_indexes": TABLE_INDEXES,
    "tags": TAGS,
}


def _audit_log(table: Readable, startup: Startup) -> RowSource:
    rows = _with_retracts(batch_source(table, startup, deletes=True))
    return AuditRows(rows, _shows_sequence(table))


def _binlog(table: Readable, startup: Startup) -> RowSource:
    rows = _with_retracts(batch_source(table, startup, deletes=True))
    if isinstance(without_resolved_blobs(rows), DiffRows):
        raise UnsupportedError(
            f"table {table.name}$binlog: the difference of two snapshots has no updates; read $audit_log"
        )
    return BinlogRows(
        _as_batch(rows), isinstance(without_resolved_blobs(rows), ChangedRows), _shows_sequence(table)
    )


def _as_batch(rows: RowSource) -> RowSource:
    """Order changes as a batch read does: the order decides which rows make a pair."""
    if isinstance(rows, ResolvedBlobRows):
        return replace(rows, source=_as_batch(rows.source))
    return replace(rows, as_batch=True) if isinstance(rows, ChangedRows) else rows


def _shows_sequence(table: Readable) -> bool:
    """Return whether sequence numbers are shown. Raises UnsupportedError where rows are merged from several,
    which have no sequence number of their own.
    """
    shows = SHOW_SEQUENCE.read(table.schema.options) and bool(table.schema.primary_keys)
    if shows and table.options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table {table.name}: option {SHOW_SEQUENCE.key}=true: this release shows sequence numbers of "
            "merge engine deduplicate only"
        )
    return shows


def _with_retracts(rows: RowSource) -> RowSource:
    if isinstance(rows, FallbackRows):
        raise UnsupportedError(
            "rows of two branches have no common log: unset scan.fallback-branch and scan.primary-branch, "
            "and read one branch"
        )
    if isinstance(rows, ResolvedBlobRows):
        return replace(rows, source=_with_retracts(rows.source))
    return replace(rows, retracts=True) if isinstance(rows, SnapshotRows) else rows


def _read_optimized(table: Readable, startup: Startup) -> RowSource:
    """Read, of a table with a primary key, the files of the last full compaction, which need no merging."""
    rows = without_resolved_blobs(batch_source(table, startup))
    if not isinstance(rows, SnapshotRows):
        raise UnsupportedError(f"table {table.name}$ro: changes are read from the table itself")
    if not table.schema.primary_keys:
        return rows
    top = TreePolicy.from_options(table.schema.options, table.options.target_file_size).num_levels - 1
    return with_resolved_blobs(replace(rows, where=ScanFilter(levels=(top, top))), rows.context)


def _row_tracking(table: Readable, startup: Startup) -> RowSource:
    if not table.options.row_tracking:
        raise InvalidInputError(f"table {table.name}$row_tracking: option row-tracking.enabled is not set")
    rows = batch_source(table, startup)
    if not isinstance(rows, SnapshotRows):
        raise UnsupportedError(f"table {table.name}$row_tracking: changes are read from the table itself")
    return TrackedRows(rows)


_DERIVED: Mapping[str, Callable[[Readable, Startup], RowSource]] = {
    "audit_log": _audit_log,
    "binlog": _binlog,
    "ro": _read_optimized,
    "row_tracking": _row_tracking,
}
_LOGS = ("audit_log", "binlog")
SYSTEM_TABLES = tuple(sorted((*_LISTINGS, *_DERIVED)))
"""These are the names that may follow the dollar sign."""


@dataclass(frozen=True)
class SystemTable:
    """This is one system table of `table`. It supports `scan`, and logs and `$ro` of an append table support
    `stream`: everything else of a table is refused.
    """

    table: Readable
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in SYSTEM_TABLES:
            names = ", ".join(SYSTEM_TABLES)
            raise NotFoundError(
                f"table {self.table.name}${self.kind}: this system table does not exist; the "
                f"system tables are {names}"
            )

    def __repr__(self) -> str:
        return one_line("SystemTable", self.name, {})

    @property
    def name(self) -> str:
        return f"{self.table.name}${self.kind}"

    @property
    def row_type(self) -> RowType:
        """Return the columns of the system table."""
        return self._source(Startup.from_options({})).row_type

    @property
    def is_log(self) -> bool:
        """Return whether its rows are changes with their kinds."""
        return self.kind in _LOGS

    def with_options(self, options: Mapping[str, str]) -> SystemTable:
        """Return the same system table with options that hold for this handle only."""
        return replace(self, table=self.table.with_options(options))

    def scan(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        timestamp_ms: int | None = None,
        watermark: int | None = None,
        version: str | None = None,
        incremental: str | Incremental | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Scan like `Table.scan`. Lists of snapshots, schemas, names or options are the same at any
        snapshot.
        """
        table = self.table if branch is None else self.table.at_branch(branch)
        travel = TimeTravel(
            snapshot=snapshot, tag=tag, timestamp_ms=timestamp_ms, watermark=watermark, version=version
        )
        interval = Incremental.parse(incremental) if isinstance(incremental, str) else incremental
        startup = named_start(table, travel, interval)
        check_given_options(table, startup, is_log=self.is_log)
        source = replace(self, table=table)._source(startup)
        return Scan.of(source, where, columns, limit)

    def stream(
        self,
        *,
        snapshot: int | None = None,
        mode: str | None = None,
        timestamp_ms: int | None = None,
        next_snapshot: int | None = None,
        branch: str | None = None,
        consumer: str | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        update_before: bool = True,
    ) -> Stream:
        """Open a stream like `Table.stream`, with its starts, positions and consumers.

        Raises UnsupportedError for system tables other than `$audit_log`, `$binlog` and `$ro`, and for `$ro`
        of a table with a primary key.
        """
        table, view = self.stream_source(branch, update_before=update_before)
        check_poll_options(self.table._overrides, table.schema, consumer, is_log=self.is_log)
        return open_stream(
            table,
            stream_startup(table.schema.options, snapshot, mode, timestamp_ms),
            StreamSelection.of(view, where, columns),
            next_snapshot=next_snapshot,
            consumer=consumer,
        )

    def stream_source(
        self, branch: str | None = None, *, update_before: bool = True
    ) -> tuple[Readable, StreamView]:
        """Return the table whose stream it is, and what of it the stream shows. Raises UnsupportedError."""
        if not update_before:
            raise UnsupportedError(
                f"table {self.name}: its rows have no kind -U that could be left out (update-before=false)"
            )
        table = self.table if branch is None else self.table.at_branch(branch)
        return table, stream_view(table, self.kind, sequence=_shows_sequence(table))

    def _source(self, startup: Startup) -> RowSource:
        if self.kind in _DERIVED:
            return _DERIVED[self.kind](self.table, startup)
        if startup.incremental is not None:
            raise InvalidInputError(f"table {self.name}: it shows a state and no changes; name a snapshot")
        table = self.table
        start = batch_start(startup, table.schema.options, history_of(table), table._stores.tags)
        listing = _LISTINGS[self.kind]
        if listing.dated:
            table = table._at_schema(schema_at(table, start))
        version = ReadVersion(table._stores.paths, start.snapshot, self.kind)
        make = partial(listing.rows, table, start.snapshot)
        return ViewRows(self.name, listing.row_type, make, version=version)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"table {self.name} is a system table: it can only be read; use {self.table.name}"
        )
