"""This module has the changes of rows by a condition, and what all changes have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate
from lakecore.write.row_level.assignments import Assignments

__all__ = ["BatchChanges", "DeleteWhere", "RowChange", "UpdateWhere"]


@dataclass(frozen=True, slots=True)
class BatchChanges:
    """These are the changes of the rows of one batch."""

    replaced: pa.BooleanArray
    """It is true for rows that get another form, or none."""
    updated: pa.RecordBatch
    """These are the rows in their new form."""
    deleted: pa.RecordBatch
    """These are the rows that go, in their old form."""


class RowChange(Protocol):
    """This is a change of rows, which sees each live row of the table once, in batches with all columns."""

    @property
    def predicate(self) -> Predicate | None:
        """Return a condition that is true for all rows that may change; None: all may."""

    def changes(self, batch: pa.RecordBatch) -> BatchChanges:
        """Return the changes of some rows. Raises InvalidInputError."""

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows to add, after all rows of the table were seen."""


@dataclass(frozen=True)
class UpdateWhere:
    """It changes columns of the rows for which a condition is true."""

    predicate: Predicate | None
    assignments: Assignments

    def changes(self, batch: pa.RecordBatch) -> BatchChanges:
        """Return the rows for which the condition is true, with their new values."""
        hits = _hits(self.predicate, batch)
        rows = batch.filter(hits)
        return BatchChanges(hits, self.assignments.of(rows), rows.slice(0, 0))

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield nothing: an update adds no rows."""
        return iter(())


@dataclass(frozen=True)
class DeleteWhere:
    """It deletes the rows for which a condition is true."""

    predicate: Predicate | None

    def changes(self, batch: pa.RecordBatch) -> BatchChanges:
        """Return the rows for which the condition is true."""
        hits = _hits(self.predicate, batch)
        rows = batch.filter(hits)
        return BatchChanges(hits, rows.slice(0, 0), rows)

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield nothing: a deletion adds no rows."""
        return iter(())


def _hits(predicate: Predicate | None, batch: pa.RecordBatch) -> pa.BooleanArray:
    if predicate is None:
        return pa.repeat(pa.scalar(True), batch.num_rows)
    return pc.fill_null(mask(predicate, batch), False)
