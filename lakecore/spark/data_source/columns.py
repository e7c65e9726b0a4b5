"""This module makes Arrow batches of a table those that Spark accepts: names, order and types are compared by
Spark, which does not convert.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.read.source.row_parts.selection import check_ids
from lakecore.spark.data_source.request import Nanoseconds
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.spark.versions import arrow_schema_of
from lakecore.types.datatypes import DataField, RowType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["ColumnsForSpark", "projected_columns"]


def projected_columns(schema: StructType, row_type: RowType, nanoseconds: Nanoseconds) -> RowType:
    """Return the columns of a schema that the user gave, or that an earlier look at the table found. A struct
    of it may have some fields of a ROW, in any order.

    Raises InvalidInputError for a column or field that the table does not have with this type,
    UnsupportedError for fields that cannot be read alone.
    """
    return RowType(_chosen_fields(schema, row_type, nanoseconds, ""), row_type.nullable)


def _chosen_fields(
    schema: StructType, row_type: RowType, nanoseconds: Nanoseconds, above: str
) -> tuple[DataField, ...]:
    have = {field.name: field for field in spark_schema(row_type, nanoseconds).fields}
    chosen = []
    for field in schema.fields:
        name, kind = f"{above}{field.name}", have.get(field.name)
        if kind is None:
            place = f"column {above[:-1]} has the fields" if above else "the table has the columns"
            raise InvalidInputError(
                f"column {name!r} of the given schema is not in the table; {place} {', '.join(have)}"
            )
        ours = row_type.field(field.name)
        if _nullable(field.dataType) == _nullable(kind.dataType):
            chosen.append(ours)
        elif (
            isinstance(ours.type, RowType) and field.dataType.typeName() == "struct" and field.dataType.fields
        ):
            check_ids(ours.type, name)
            inner = _chosen_fields(field.dataType, ours.type, nanoseconds, f"{name}.")
            chosen.append(replace(ours, type=replace(ours.type, fields=inner)))
        else:
            raise InvalidInputError(
                f"column {name!r} is {field.dataType.simpleString()} in the given schema, but "
                f"{kind.dataType.simpleString()} in the table; leave the schema out and cast the column, or "
                "load the table again if it was altered"
            )
    return tuple(chosen)


def _nullable(kind: Any) -> Any:
    """Return the JSON of a Spark type without its nullability."""
    return _without_nulls(kind.jsonValue())


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        keys = ("nullable", "containsNull", "valueContainsNull", "metadata")
        return {key: _without_nulls(one) for key, one in value.items() if key not in keys}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class ColumnsForSpark:
    """It converts batches to the Arrow types that Spark has for `schema`."""

    schema: StructType
    nanoseconds: Nanoseconds

    @cached_property
    def arrow(self) -> pa.Schema:
        """Return the Arrow schema that Spark requires."""
        return arrow_schema_of(self.schema)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in Spark's types. Raises UnsupportedError for times that Spark cannot hold."""
        columns = [self._column(batch.column(field.name), field) for field in self.arrow]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        truncates = self.nanoseconds is Nanoseconds.TRUNCATE
        try:
            return pc.cast(column, options=pc.CastOptions(field.type, allow_time_truncate=truncates))
        except pa.ArrowInvalid as err:
            if "timestamp" not in str(err):
                raise
            raise UnsupportedError(
                f"column {field.name}: a time has more digits than the six that Spark holds; set the option "
                "nanoseconds to truncate or text, or leave the column out with the option columns"
            ) from err
