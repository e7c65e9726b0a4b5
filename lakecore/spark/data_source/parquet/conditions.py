"""This module translates predicates into conditions of Spark, for rows that Spark reads.

Only what means the same in both is translated; lakecore reads the rest. For predicates NaN equals nothing,
and for Spark it equals NaN and is above all numbers: conditions on FLOAT and DOUBLE are not translated.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any

from lakecore.errors import UnsupportedError
from lakecore.predicate.tree import (
    And,
    AtKey,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    Not,
    NotIn,
    Or,
    Predicate,
    StartsWith,
    negated,
)
from lakecore.spark.data_source.places.arrow_tasks import quoted
from lakecore.spark.data_source.request import Nanoseconds
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.types.arrow import arrow_type, arrow_values
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["condition_of"]

_OPERATORS = {
    Comparison.EQ: eq,
    Comparison.NE: ne,
    Comparison.LT: lt,
    Comparison.LE: le,
    Comparison.GT: gt,
    Comparison.GE: ge,
}
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_COMPARED = _TEXTS | {
    TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL,
    TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ,
}  # fmt: skip
_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_ESCAPE = "\\"


def condition_of(predicate: Predicate, row_type: RowType) -> Column:
    """Return the condition that is true for the same rows of a DataFrame with these columns. It needs an
    active session. Raises UnsupportedError for a condition that means something else in Spark.
    """
    match predicate:
        case And(children=children):
            return reduce(and_, (condition_of(child, row_type) for child in children))
        case Or(children=children):
            return reduce(or_, (condition_of(child, row_type) for child in children))
        case Not(child=child):
            return condition_of(negated(child), row_type)
        case AtKey(leaf=leaf):
            raise UnsupportedError(f"the condition on a key of the map {leaf.column} is read by lakecore")
        case _:
            return _leaf(predicate, row_type.field(predicate.column))


def _leaf(leaf: Leaf, field: DataField) -> Column:
    from pyspark.sql import functions

    column = functions.col(quoted(field.name))
    match leaf:
        case IsNull():
            return column.isNull()
        case IsNotNull():
            return column.isNotNull()
        case Compare(op=op, value=value):
            return _OPERATORS[op](column, _literals((value,), field)[0])
        case In(values=values):
            return _membership(column, values, field, within=True)
        case NotIn(values=values):
            return _membership(column, values, field, within=False)
        case StartsWith(prefix=prefix):
            _check_text(field)
            return column.startswith(prefix)
        case Like(pattern=pattern, matches=matches):
            _check_text(field)
            _check_pattern(pattern, field)
            return column.like(pattern) if matches else ~column.like(pattern)


def _membership(column: Column, values: tuple[Any, ...], field: DataField, *, within: bool) -> Column:
    from pyspark.sql import functions

    if not values:  # unknown where the column is null
        return functions.when(column.isNotNull(), functions.lit(not within))
    member = column.isin(*_literals(values, field))
    return member if within else ~member


def _literals(values: tuple[Any, ...], field: DataField) -> list[Column]:
    """Return internal values as literals of the type of the column."""
    from pyspark.sql import functions

    root = field.type.root if isinstance(field.type, AtomicType) else None
    if root not in _COMPARED or any(value is None for value in values):
        raise UnsupportedError(f"a condition on column {field.name} of type {field.type} is read by lakecore")
    kind = spark_schema(RowType((field,)), Nanoseconds.REFUSE)[0].dataType
    column = arrow_values(list(values), arrow_type(field.type))
    if root in _TIMES:  # texts: Python's own times depend on the zone of the process
        texts = [_time_text(value, root) for value in column]
        return [functions.lit(text).cast(kind) for text in texts]
    return [functions.lit(value).cast(kind) for value in column.to_pylist()]


def _time_text(value: Any, root: TypeRoot) -> str:
    try:
        python = value.as_py()
    except (ValueError, OverflowError) as err:
        raise UnsupportedError(f"the time {value} is outside of the years 1 to 9999") from err
    text = str(python.isoformat())
    return text.replace("+00:00", "") + "Z" if root is TypeRoot.TIMESTAMP_LTZ else text


def _check_text(field: DataField) -> None:
    if not isinstance(field.type, AtomicType) or field.type.root not in _TEXTS:
        raise UnsupportedError(f"a pattern for column {field.name} of type {field.type} is read by lakecore")


def _check_pattern(pattern: str, field: DataField) -> None:
    """Raise UnsupportedError for an escape that Spark refuses."""
    rest = pattern.replace(_ESCAPE * 2, "").replace(_ESCAPE + "%", "").replace(_ESCAPE + "_", "")
    if _ESCAPE in rest:
        raise UnsupportedError(
            f"the pattern {pattern!r} for column {field.name} has an escape that Spark refuses"
        )
