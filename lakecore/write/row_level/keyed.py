"""This module applies a change to a table with a primary key: changed rows are written as +U, -D and +I."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.row_kind import RowKind
from lakecore.write.row_level.changes import RowChange
from lakecore.write.row_level.counted_rows import RowCounts
from lakecore.write.rows.incoming import KIND_COLUMN

__all__ = ["KeyedChange"]


@dataclass(frozen=True)
class KeyedChange:
    """It iterates over the rows to write, given the rows of the table; `counts` is right at the end."""

    change: RowChange
    rows: Iterable[pa.RecordBatch]
    counts: RowCounts = field(default_factory=RowCounts)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows:
            changed = self.change.changes(batch)
            self.counts.updated += changed.updated.num_rows
            self.counts.deleted += changed.deleted.num_rows
            yield from _of_kind(changed.updated, RowKind.UPDATE_AFTER)
            yield from _of_kind(changed.deleted, RowKind.DELETE)
        for batch in self.change.inserted():
            self.counts.inserted += batch.num_rows
            yield from _of_kind(batch, RowKind.INSERT)


def _of_kind(rows: pa.RecordBatch, kind: RowKind) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        kinds = pa.repeat(pa.scalar(kind.symbol), rows.num_rows)
        yield rows.append_column(KIND_COLUMN, kinds)
