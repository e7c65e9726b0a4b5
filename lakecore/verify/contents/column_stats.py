"""This module compares the column statistics of a manifest entry with the rows of its file: filters skip
files by them.

Bounds may be wider than the values (long text is cut), never narrower; null counts must be exact. What is not
recorded is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.format.bounds import ArrowBounds, ColumnBounds
from lakecore.format.data_reader import file_format
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.data_file import DataFile, SimpleStats
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import AtomicType, DataField, DataType, RowType, TypeRoot
from lakecore.verify.digest.shape import RowShape

__all__ = ["ColumnStats", "keeps_blanks"]


class ColumnStats:
    """It checks the statistics of one file, to which batches of its covered columns are added. `shape` is,
    in full mode, that of the file's schema.

    `partly`: the batches are only some of the rows. `chars`: False where CHARs were read without the blanks
    at their ends, and the bounds have them: then CHARs are left out.
    """

    def __init__(self, shape: RowShape, *, partly: bool = False, chars: bool = True) -> None:
        keys = [(KEY_PREFIX + field.name, field) for field in shape.key]
        columns = [*keys, *((field.name, field) for field in shape.values)]
        self._partly = partly
        self._at = [i for i, (_, field) in enumerate(columns) if _flat(field.type, chars=chars)]
        self._schema = pa.schema([(columns[i][0], arrow_type(columns[i][1].type)) for i in self._at])
        self._bounds = ArrowBounds(self._schema)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add columns in the order of the shape. Raises CorruptDataError for text that is not UTF-8."""
        if len(columns[0]):
            typed = [columns[i].cast(kind.type) for i, kind in zip(self._at, self._schema, strict=True)]
            try:
                self._bounds.add(pa.RecordBatch.from_arrays(typed, schema=self._schema))
            except UnicodeDecodeError as err:
                raise CorruptDataError("a column", f"its text is not UTF-8 ({err.reason})") from err

    def bounds(self) -> Mapping[str, ColumnBounds]:
        """Return the bounds of the rows, by the names of stored columns."""
        return self._bounds.finish()

    def problems(self, file: DataFile, schema: TableSchema) -> Iterator[str]:
        """Yield what the statistics of `file` record and its rows contradict. `schema` has the columns of the
        file.

        Raises CorruptDataError for statistics that cannot be decoded.
        """
        problems = self._bounds.finish()
        fields = schema.fields
        if file.value_stats_cols is not None:
            by_name = {field.name: field for field in schema.fields}
            fields = tuple(by_name[name] for name in file.value_stats_cols if name in by_name)
        compared = partial(_compare, bounds=problems, partly=self._partly)
        yield from compared(file.file_name, file.value_stats, fields)
        if schema.primary_keys:
            yield from compared(file.file_name, file.key_stats, schema.key_type.fields, prefix=KEY_PREFIX)


def keeps_blanks(shape: RowShape, path: str) -> bool:
    """Return whether CHARs of a file are compared with bounds that were made from the same values."""
    return shape.blanks_count or file_format(path) == "orc"


def _compare(
    name: str,
    stats: SimpleStats,
    fields: Sequence[DataField],
    *,
    bounds: Mapping[str, ColumnBounds],
    partly: bool,
    prefix: str = "",
) -> Iterator[str]:
    if not stats.null_counts:
        return
    row_type = RowType(tuple(fields))
    lows, highs = (_decode(row, row_type, name) for row in (stats.min_values, stats.max_values))
    for i, field in enumerate(fields):
        actual = bounds.get(prefix + field.name)
        if actual is None:
            continue
        nulls = stats.null_counts[i] if i < len(stats.null_counts) else None
        null_count = actual.null_count or 0
        if nulls is not None and nulls >= 0 and (nulls < null_count if partly else nulls != null_count):
            yield (
                f"statistics of column {field.name} count {nulls} nulls, but the column has "
                f"{actual.null_count}"
            )
        if _above(lows[i], actual.minimum) or _above(actual.maximum, highs[i]):
            bounds_text = f"{actual.minimum!r} to {actual.maximum!r}"
            yield (
                f"statistics of column {field.name} give the range {lows[i]!r} to {highs[i]!r}, but "
                f"its values are {bounds_text}"
            )


def _flat(data_type: DataType, *, chars: bool) -> bool:
    return isinstance(data_type, AtomicType) and (chars or data_type.root is not TypeRoot.CHAR)


def _decode(row: bytes, data_type: RowType, name: str) -> list[Any]:
    """Return bounds in the form in which the file's format keeps values: ORC keeps no spaces at the end of a
    CHAR.
    """
    values = list(decode_row(row, data_type, name))
    if not name.endswith(".orc"):
        return values
    types = [field.type for field in data_type.fields]
    chars = [isinstance(data_type, AtomicType) and data_type.root is TypeRoot.CHAR for data_type in types]
    cut = zip(values, chars, strict=True)
    return [value.rstrip(" ") if char and value is not None else value for value, char in cut]


def _above(left: Any, right: Any) -> bool:
    return left is not None and right is not None and bool(comparable(left) > comparable(right))
