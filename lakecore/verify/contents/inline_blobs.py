"""Values of BLOB columns that stay in ordinary files: each has to be a reference, or a view.

Compactions of lakecore before November 2026 wrote the bytes that references mean in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.format.blob.descriptors import MARK, REFERENCE_MARK, VIEW_MARK, is_old_reference
from lakecore.metadata.dedicated_columns import descriptor_columns, view_columns
from lakecore.metadata.schema import TableSchema
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.rules.kinds import retracting

__all__ = ["InlineBlobs"]


class InlineBlobs:
    """It counts rows of a file with other values, in the columns that a check covers."""

    def __init__(self, shape: RowShape, schema: TableSchema) -> None:
        first = len(shape.key)
        kinds = (
            (descriptor_columns(schema.options), REFERENCE_MARK, "references"),
            (view_columns(schema.options), VIEW_MARK, "views"),
        )
        self._references = [
            (first + at, value.name, mark, what)
            for names, mark, what in kinds
            for at, value in enumerate(shape.values)
            if value.name in names
        ]
        self._keyed = shape.keyed
        self._wrong: dict[str, tuple[int, str]] = {}

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add the arrays of a batch: key, values, sequence number, row kind."""
        for place, name, mark, what in self._references:
            column = columns[place]
            if self._keyed:
                column = column.filter(pa.array(~retracting(columns[-1].to_numpy(zero_copy_only=False))))
            marked = pc.equal(pc.binary_slice(column, MARK.start, MARK.stop), pa.scalar(mark, column.type))
            others = column.filter(pc.invert(marked))
            if wrong := sum(not is_old_reference(value.as_py()) for value in others):
                self._wrong[name] = (self._wrong.get(name, (0, what))[0] + wrong, what)

    def problems(self) -> Iterator[str]:
        for name, (rows, what) in self._wrong.items():
            yield f"{rows} rows have bytes in column {name}, which must hold {what}"
