"""This module gives columns of rows new values: literals, or expressions over the columns of the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.metadata.options import MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.arrow import arrow_schema
from lakecore.write.row_level.conditions import compute
from lakecore.write.rows.casting import cast_column

__all__ = ["Assignments"]


@dataclass(frozen=True)
class Assignments:
    """These are the new values by column: an `Expression` of pyarrow.compute, or a literal."""

    schema: TableSchema
    options: TableOptions
    values: Mapping[str, Any]

    def check(self) -> None:
        """Raise InvalidInputError for no column, an unknown one, or one of the primary key."""
        if not self.values:
            raise InvalidInputError("no column is set; name at least one with its value")
        names = self.schema.row_type.names
        for name, value in self.values.items():
            if name not in names:
                raise InvalidInputError(
                    f"column {name!r} is not in the table; the table has the columns {', '.join(names)}"
                )
            if name in self.schema.primary_keys:
                raise InvalidInputError(
                    f"column {name!r} is of the primary key, which no update changes; delete and insert "
                    f"the row"
                )
            if not isinstance(value, pc.Expression):
                self._cast(name, _constant(value, 1))

    def of(self, rows: pa.RecordBatch, inputs: pa.RecordBatch | None = None) -> pa.RecordBatch:
        """Return rows with the new values. Expressions see the columns of `inputs`, which has as many rows.

        Raises InvalidInputError for a value that does not fit its column.
        """
        computed = self._values(rows if inputs is None else inputs)
        columns = []
        for field in arrow_schema(self.schema.row_type):
            if field.name in computed:
                columns.append(self._cast(field.name, computed[field.name]))
            else:
                columns.append(rows.column(field.name))
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self.schema.row_type))

    def _values(self, inputs: pa.RecordBatch) -> dict[str, pa.Array]:
        expressions = {name: value for name, value in self.values.items() if isinstance(value, pc.Expression)}
        computed = {
            name: _constant(value, inputs.num_rows)
            for name, value in self.values.items()
            if name not in expressions
        }
        return computed | compute(expressions, inputs)

    def _cast(self, name: str, array: pa.Array) -> pa.Array:
        """Return values in the column's type. Raises InvalidInputError for a null that would mean nothing."""
        data_type = self.schema.row_type.field(name).type
        if array.null_count and self.options.merge_engine is MergeEngine.PARTIAL_UPDATE:
            raise InvalidInputError(
                f"column {name!r} cannot be set to null: with merge-engine=partial-update a null leaves "
                f"the value "
                "as it is"
            )
        return cast_column(array, data_type, name)


def _constant(value: Any, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count)
    return pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value), count)
