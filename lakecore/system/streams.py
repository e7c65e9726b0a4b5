"""This module has the streams of system tables: `$audit_log`, `$binlog` and `$ro` show the rows of a stream
of their table, and its positions are theirs.

Rules of the format: the first state of `$binlog` has one row a change, and pairs are made in changelogs and
deltas; `$ro` of a table with a primary key has no stream.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.read.source.changed_rows import StateRows
from lakecore.read.source.readable import Readable
from lakecore.read.source.resolve_blobs import ResolvedBlobRows
from lakecore.read.source.scan import RowSource
from lakecore.read.source.stream_view import StreamView, TableRows
from lakecore.system.change_log import AuditRows, BinlogRows, audit_row_type, binlog_row_type
from lakecore.types.datatypes import RowType

__all__ = ["TABLES_WITH_STREAMS", "stream_view"]

TABLES_WITH_STREAMS = ("audit_log", "binlog", "ro")
"""These system tables have streams."""


def stream_view(table: Readable, kind: str, *, sequence: bool) -> StreamView:
    """Return what the stream of a system table shows; `sequence` adds the sequence number to logs.

    Raises UnsupportedError for a system table that has no stream.
    """
    rows = table.schema.row_type
    if kind == "audit_log":
        return _AuditView(audit_row_type(rows, sequence=sequence), sequence)
    if kind == "binlog":
        return _BinlogView(binlog_row_type(rows, sequence=sequence), sequence)
    if kind != "ro":
        raise UnsupportedError(
            f"table {table.name}${kind}: it has no stream; {', '.join(TABLES_WITH_STREAMS)} have one: read "
            "it in batch"
        )
    if table.schema.primary_keys:
        raise UnsupportedError(
            f"table {table.name}$ro: a table with a primary key has no stream of fully compacted rows; "
            f"stream {table.name} itself"
        )
    return TableRows.of_table(table)


@dataclass(frozen=True)
class _AuditView:
    row_type: RowType
    sequence: bool

    @property
    def needs_whole_buckets(self) -> bool:
        return False

    def of(self, source: RowSource, *, full: bool) -> RowSource:
        return AuditRows(_with_retracts(source), self.sequence)


@dataclass(frozen=True)
class _BinlogView:
    row_type: RowType
    sequence: bool

    @property
    def needs_whole_buckets(self) -> bool:
        return True

    def of(self, source: RowSource, *, full: bool) -> RowSource:
        return BinlogRows(_with_retracts(source), not full, self.sequence)


def _with_retracts(rows: RowSource) -> RowSource:
    """Let the first state include the deletes that its files still have."""
    if isinstance(rows, ResolvedBlobRows):
        return replace(rows, source=_with_retracts(rows.source))
    return replace(rows, retracts=True) if isinstance(rows, StateRows) else rows
