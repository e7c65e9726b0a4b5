"""Column statistics of a manifest entry against the rows of its file: filters skip files by them.

Bounds may be wider than the values (long text is cut), never narrower; null counts must be exact. What is
not recorded is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakecore.format.bounds import ArrowBounds, ColumnBounds
from lakecore.metadata.data_file import DataFile, SimpleStats
from lakecore.metadata.key_order import comparable
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot
from lakecore.verify.shape import RowShape

__all__ = ["ColumnStats"]


class ColumnStats:
    """Fed with batches of the covered columns of one file. `shape`: in full mode, of the file's schema."""

    def __init__(self, shape: RowShape) -> None:
        keys = [(KEY_PREFIX + field.name, field) for field in shape.key]
        named = [*keys, *((field.name, field) for field in shape.values)]
        self._at = [i for i, (_, field) in enumerate(named) if isinstance(field.type, AtomicType)]
        self._schema = pa.schema([(named[i][0], arrow_type(named[i][1].type)) for i in self._at])
        self._bounds = ArrowBounds(self._schema)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Columns in the order of the shape."""
        if len(columns[0]):
            self._bounds.add(pa.RecordBatch.from_arrays([columns[i] for i in self._at], schema=self._schema))

    def bounds(self) -> Mapping[str, ColumnBounds]:
        """What the rows say, by the names of stored columns."""
        return self._bounds.finish()

    def problems(self, file: DataFile, schema: TableSchema) -> Iterator[str]:
        """What the statistics of `file` say that its rows do not. `schema`: the columns that the file has.

        Raises CorruptDataError for statistics that cannot be decoded.
        """
        found = self._bounds.finish()
        fields = schema.fields
        if file.value_stats_cols is not None:
            by_name = {field.name: field for field in schema.fields}
            fields = tuple(by_name[name] for name in file.value_stats_cols if name in by_name)
        yield from _compared(file.file_name, file.value_stats, fields, found, "")
        if schema.primary_keys:
            yield from _compared(file.file_name, file.key_stats, schema.key_type.fields, found, KEY_PREFIX)


def _compared(
    name: str,
    stats: SimpleStats,
    fields: Sequence[DataField],
    found: Mapping[str, ColumnBounds],
    prefix: str,
) -> Iterator[str]:
    if not stats.null_counts:
        return
    kind = RowType(tuple(fields))
    lows, highs = (_decoded(row, kind, name) for row in (stats.min_values, stats.max_values))
    for i, field in enumerate(fields):
        actual = found.get(prefix + field.name)
        if actual is None:
            continue
        nulls = stats.null_counts[i] if i < len(stats.null_counts) else None
        if nulls is not None and nulls >= 0 and nulls != actual.null_count:
            yield f"statistics of column {field.name} count {nulls} nulls, it has {actual.null_count}"
        if _above(lows[i], actual.minimum) or _above(actual.maximum, highs[i]):
            held = f"{actual.minimum!r} to {actual.maximum!r}"
            yield f"statistics of column {field.name} say {lows[i]!r} to {highs[i]!r}, it holds {held}"


def _decoded(row: bytes, kind: RowType, name: str) -> list[Any]:
    """Bounds as the format of the file keeps their values: ORC no blanks at the end of a CHAR."""
    values = list(decode_row(row, kind, name))
    if not name.endswith(".orc"):
        return values
    kinds = [field.type for field in kind.fields]
    chars = [isinstance(kind, AtomicType) and kind.root is TypeRoot.CHAR for kind in kinds]
    cut = zip(values, chars, strict=True)
    return [value.rstrip(" ") if char and value is not None else value for value, char in cut]


def _above(left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(comparable(left) > comparable(right))
