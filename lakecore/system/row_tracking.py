"""This module has `$row_tracking`: rows with their ids and sequence numbers, which stay the same when
files are rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of, restricted
from lakecore.read.file.row_ids import tracked_type
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.types.datatypes import RowType

__all__ = ["TrackedRows"]


@dataclass(frozen=True)
class TrackedRows:
    """These are the rows of `inner`, with `_ROW_ID` and `_SEQUENCE_NUMBER` as last columns."""

    inner: SnapshotRows

    @property
    def description(self) -> str:
        return f"{self.inner.description}, row tracking"

    @property
    def row_type(self) -> RowType:
        return tracked_type(self.inner.row_type)

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        """Return the parts of `inner`; statistics say nothing of ids."""
        return self.inner.plan(restricted(where, self.inner.row_type.names))

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part. Conditions on ids are evaluated after ids are assigned: a file need not store them."""
        extra = sorted(columns_of(where) - set(columns)) if where is not None else []
        below = restricted(where, self.inner.row_type.names)
        for batch in self.inner.read(part, (*columns, *extra), below, kinds=kinds):
            filtered = batch if where is None else batch.filter(mask(where, batch))
            if filtered.num_rows:
                yield filtered.drop_columns(extra) if extra else filtered
