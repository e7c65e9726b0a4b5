"""This module reads some fields of ROWs: a table at a snapshot reads only these from its files, and any other
source is read with whole ROWs, which are cut afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.predicate.tree import Predicate
from lakecore.read.columns.evolve import cut_columns
from lakecore.read.source.resolve_blobs import ResolvedBlobRows
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from lakecore.read.source.scan import RowSource

__all__ = ["PartRows", "with_parts"]


def with_parts(source: RowSource, columns: RowType) -> RowSource:
    """Return the source with the types that `columns` have, whose ROWs may have fewer fields than those of
    the source; `source` itself if all are whole.
    """
    whole = source.row_type
    parts = RowType(tuple(field for field in columns if field.type != whole.field(field.name).type))
    if not parts.fields:
        return source
    if isinstance(source, ResolvedBlobRows):
        return replace(source, source=with_parts(source.source, columns))
    if isinstance(source, SnapshotRows):
        others = (field for field in source.context.parts if field.name not in parts.names)
        context = source.context.with_parts(RowType((*others, *parts)))
        return replace(source, context=context)
    return PartRows(source, parts)


@dataclass(frozen=True)
class PartRows:
    """It has the rows of a source, and of its ROWs only the fields that `parts` have."""

    inner: RowSource
    parts: RowType
    """These columns are cut; the others are read whole."""

    @property
    def description(self) -> str:
        return self.inner.description

    @property
    def row_type(self) -> RowType:
        types = {field.name: field for field in self.parts}
        return RowType(tuple(types.get(field.name, field) for field in self.inner.row_type))

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        """Return the parts of the source."""
        return self.inner.plan(where)

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a part, see RowSource; `where` is about whole ROWs."""
        for batch in self.inner.read(part, columns, where, kinds=kinds):
            yield cut_columns(batch, self.inner.row_type, self.parts)
