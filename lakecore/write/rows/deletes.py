"""This module converts rows that were read to deletes of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.row_kind import RowKind
from lakecore.write.rows.incoming import KIND_COLUMN

__all__ = ["Deletes"]


@dataclass
class Deletes:
    """It iterates over batches with `_kind` -D in every row, to be written; `count` counts the rows that
    were yielded.
    """

    batches: Iterable[pa.RecordBatch]
    count: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.count += batch.num_rows
            kinds = pa.repeat(pa.scalar(RowKind.DELETE.symbol), batch.num_rows)
            yield batch.append_column(KIND_COLUMN, kinds)
