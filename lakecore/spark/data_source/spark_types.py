"""This module maps the columns of a table to the types of Spark.

Everything is nullable, as it is for Spark's own file formats: Spark would trust a NOT NULL of rows that
others wrote. CHAR and VARCHAR become strings, VECTOR an array, MULTISET a map of counts, BLOB binary,
TIMESTAMP `timestamp_ntz`, TIMESTAMP WITH LOCAL TIME ZONE `timestamp`, TIME Spark's `time`. Spark's times have
six digits: for more see `Nanoseconds`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lakecore.errors import UnsupportedError
from lakecore.spark.data_source.filters import MICRO_DIGITS
from lakecore.spark.data_source.request import Nanoseconds
from lakecore.spark.versions import TIME_TYPE, VARIANT_TYPE, check_feature
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    VectorType,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

__all__ = ["KIND_COLUMN", "spark_schema"]

KIND_COLUMN = "_kind"
"""This column has the kinds of rows: +I, -U, +U or -D."""

_PLAIN = {
    TypeRoot.CHAR: "StringType",
    TypeRoot.VARCHAR: "StringType",
    TypeRoot.BOOLEAN: "BooleanType",
    TypeRoot.BINARY: "BinaryType",
    TypeRoot.VARBINARY: "BinaryType",
    TypeRoot.BLOB: "BinaryType",
    TypeRoot.TINYINT: "ByteType",
    TypeRoot.SMALLINT: "ShortType",
    TypeRoot.INT: "IntegerType",
    TypeRoot.BIGINT: "LongType",
    TypeRoot.FLOAT: "FloatType",
    TypeRoot.DOUBLE: "DoubleType",
    TypeRoot.DATE: "DateType",
    TypeRoot.TIMESTAMP: "TimestampNTZType",
    TypeRoot.TIMESTAMP_LTZ: "TimestampType",
    TypeRoot.VARIANT: "VariantType",
}
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def spark_schema(row_type: RowType, nanoseconds: Nanoseconds, *, kinds: bool = False) -> StructType:
    """Return the schema of a DataFrame with these columns, and with the column of kinds behind them.

    Raises UnsupportedError naming the column.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    fields = []
    for field in row_type.fields:
        comment = {"comment": field.description} if field.description else None
        data_type = _type(field.type, nanoseconds, field.name)
        fields.append(StructField(field.name, data_type, nullable=True, metadata=comment))
    if kinds and KIND_COLUMN in row_type.names:
        raise UnsupportedError(
            f"the table has a column {KIND_COLUMN} itself; leave it out with the option columns, or rename it"
        )
    return StructType([*fields, StructField(KIND_COLUMN, StringType())] if kinds else fields)


def _type(data_type: DataType, nanoseconds: Nanoseconds, column: str) -> SparkType:
    from pyspark.sql import types

    inner = partial(_type, nanoseconds=nanoseconds, column=column)
    match data_type:
        case ArrayType(element=element) | VectorType(element=element):
            return types.ArrayType(inner(element), containsNull=True)
        case MapType(key=key, value=value):
            return types.MapType(inner(key), inner(value), valueContainsNull=True)
        case MultisetType(element=element):
            return types.MapType(inner(element), types.IntegerType(), valueContainsNull=True)
        case RowType(fields=fields):
            return types.StructType([types.StructField(one.name, inner(one.type)) for one in fields])
        case AtomicType():
            return _atomic(data_type, nanoseconds, column)


def _atomic(data_type: AtomicType, nanoseconds: Nanoseconds, column: str) -> Any:
    from pyspark.sql import types

    if data_type.root is TypeRoot.DECIMAL:
        return types.DecimalType(data_type.precision, data_type.scale)
    wide = data_type.root in _TIMESTAMPS and data_type.precision > MICRO_DIGITS
    if wide and nanoseconds is Nanoseconds.TEXT:
        return types.StringType()
    if data_type.root is TypeRoot.TIME:
        check_feature(TIME_TYPE, f"column {column}")
        return types.TimeType(min(data_type.precision, MICRO_DIGITS))
    if data_type.root is TypeRoot.VARIANT:
        check_feature(VARIANT_TYPE, f"column {column}")
    return getattr(types, _PLAIN[data_type.root])()
