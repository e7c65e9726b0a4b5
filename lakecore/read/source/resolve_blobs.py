"""This module resolves the BLOB references of primary-key tables to the bytes that they refer to.

Merges and files see references; conditions on blobs, and readers, see bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.dedicated_columns import BLOB_AS_DESCRIPTOR, holds_blobs
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of, conjunction, conjuncts, restricted
from lakecore.read.columns.blob_values import cut_by_size, reference_sizes, resolve_references
from lakecore.read.context import ReadContext
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from lakecore.read.source.scan import RowSource

__all__ = ["ResolvedBlobRows", "with_resolved_blobs", "without_resolved_blobs"]


def with_resolved_blobs(source: RowSource, context: ReadContext) -> RowSource:
    """Return `source`, a read of the table of `context`, with the bytes of its blobs; `source` itself where
    there are no blobs, or references are requested.
    """
    schema = context.schema
    blobs = frozenset(field.name for field in schema.fields if holds_blobs(field.type))
    if not blobs or not context.keyed or BLOB_AS_DESCRIPTOR.read(schema.options):
        return source
    return ResolvedBlobRows(source, context, blobs)


def without_resolved_blobs(source: RowSource) -> RowSource:
    """Return `source` as it was before `with_resolved_blobs`."""
    return source.source if isinstance(source, ResolvedBlobRows) else source


@dataclass(frozen=True)
class ResolvedBlobRows:
    """It resolves the blobs of a source. It holds a batch, and some 64 MB of blobs, or one row of them."""

    source: RowSource
    context: ReadContext
    blobs: frozenset[str]

    @property
    def description(self) -> str:
        return self.source.description

    @property
    def row_type(self) -> RowType:
        return self.source.row_type

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        """Return the parts of the source: statistics of references say nothing about bytes."""
        return self.source.plan(self.below(where))

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part, see RowSource. Raises UnsupportedError for bytes in another storage, NotFoundError."""
        late = conjunction(tuple(one for one in conjuncts(where) if columns_of(one) & self.blobs))
        late_columns = columns_of(late) if late is not None else frozenset()
        needed = tuple(dict.fromkeys((*columns, *sorted(late_columns))))
        for batch in self.source.read(part, needed, self.below(where), kinds=kinds):
            columns_now = batch.schema.names[: len(columns)] + batch.schema.names[len(needed) :]
            for low, high in cut_by_size(self._sizes(batch)):
                resolved = self._resolve_references(batch.slice(low, high - low), late_columns)
                filtered = resolved if late is None else resolved.filter(mask(late, resolved))
                if filtered.num_rows:
                    yield self._resolve_references(filtered.select(columns_now), self.blobs - late_columns)

    def below(self, where: Predicate | None) -> Predicate | None:
        """Return the conditions that the source below may use."""
        return restricted(where, set(self.row_type.names) - self.blobs)

    def _sizes(self, batch: pa.RecordBatch) -> Any:
        sizes = np.zeros(batch.num_rows, np.int64)
        for name in self.blobs.intersection(batch.schema.names):
            column = batch.column(name)
            if pa.types.is_binary(column.type):
                sizes += reference_sizes(column)
                continue
            is_map = pa.types.is_map(column.type)
            for row, values in enumerate(column.to_pylist()):
                flat = [value[1] for value in values or ()] if is_map else values or ()
                sizes[row] += int(reference_sizes(pa.array(flat, pa.binary())).sum())
        return sizes

    def _resolve_references(self, batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
        root, row_type = self.context.paths.table_path, self.row_type
        for at, field in enumerate(batch.schema):
            if field.name in names and field.name in self.blobs:
                data_type = row_type.field(field.name).type
                column = resolve_references(
                    self.context.file_io, root, field.name, batch.column(at), data_type
                )
                batch = batch.set_column(at, field, column)
        return batch
