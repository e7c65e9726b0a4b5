"""This module has what a stream shows of the rows of a table: the rows themselves, or those of a system table
that is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.read.source.readable import Readable
from lakecore.read.source.row_parts.part_rows import with_parts
from lakecore.read.source.row_parts.selection import choose_columns
from lakecore.read.source.scan import RowSource, Scan
from lakecore.scan.support import check_rows_streamable
from lakecore.types.datatypes import RowType

__all__ = ["StreamSelection", "StreamView", "TableRows"]


class StreamView(Protocol):
    """It turns the rows of a table into those that a stream has."""

    @property
    def row_type(self) -> RowType:
        """Return the columns of the stream."""

    @property
    def needs_whole_buckets(self) -> bool:
        """Return whether rows depend on the row before in their bucket, so that its files stay together."""

    def of(self, source: RowSource, *, full: bool) -> RowSource:
        """Return the rows of a part of the stream: of the first state (`full`), or of changes."""


@dataclass(frozen=True)
class TableRows:
    """The stream has the rows of the table as they are."""

    row_type: RowType
    update_before: bool = True
    """Without it rows of kind `-U` are left out, for readers that replace rows by key."""

    @classmethod
    def of_table(cls, table: Readable, *, update_before: bool = True, as_written: bool = False) -> TableRows:
        """Raise UnsupportedError unless the changes of the table tell its rows; `as_written` allows all."""
        if not as_written:
            check_rows_streamable(table.name, table.schema, table.options)
        return cls(table.schema.row_type, update_before)

    @property
    def needs_whole_buckets(self) -> bool:
        return False

    def of(self, source: RowSource, *, full: bool) -> RowSource:
        """Return the source, or one that leaves rows out."""
        return source if self.update_before else _WithoutUpdateBefore(source)


@dataclass(frozen=True)
class StreamSelection:
    """It says which rows and columns of a view a stream has."""

    view: StreamView
    where: Predicate | None
    columns: RowType
    """These are the columns of the stream; its ROWs may have fewer fields than those of the view."""

    @classmethod
    def of(
        cls, view: StreamView, where: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> StreamSelection:
        """Check the selection. Raises InvalidInputError for an unknown column or a malformed `where`; for
        fields of ROWs see `Scan.of`.
        """
        predicate = parse_where(where, view.row_type) if isinstance(where, str) else where
        return cls(view, predicate, choose_columns(columns, view.row_type))

    def scan(self, source: RowSource, *, full: bool) -> Scan:
        """Return the scan of a part of the stream, see `StreamView.of`."""
        rows = with_parts(self.view.of(source, full=full), self.columns)
        return Scan(rows, self.where, self.columns.names, None)


@dataclass(frozen=True)
class _WithoutUpdateBefore:
    """It leaves out the rows of kind `-U`."""

    inner: RowSource

    @property
    def description(self) -> str:
        return self.inner.description

    @property
    def row_type(self) -> RowType:
        return self.inner.row_type

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        return self.inner.plan(where)

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part, see RowSource."""
        for batch in self.inner.read(part, columns, where, kinds=True):
            other = pc.not_equal(batch.column(KIND_NAME), pa.scalar(int(RowKind.UPDATE_BEFORE), pa.int8()))
            rows = batch.filter(other)
            if rows.num_rows:
                yield rows if kinds else rows.drop_columns([KIND_NAME])
