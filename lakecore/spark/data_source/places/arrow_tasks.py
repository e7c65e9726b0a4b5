"""This module runs functions over the Arrow batches of a DataFrame, whatever its columns are called.

PySpark looks the columns up by name for that, where a dot is a field, backticks are quotes, and case may not
count. Columns with other names than that allows have plain ones on the way to the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["Batches", "map_in_arrow", "quoted"]

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""It yields the batches that a task makes of those that it gets."""


def map_in_arrow(frame: DataFrame, function: Batches, schema: StructType | str) -> DataFrame:
    """Return what `function` makes of the rows of each task, with the columns of `schema`."""
    names = tuple(frame.columns)
    if _are_plain(names):
        return frame.mapInArrow(function, schema)
    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))
    return numbered.mapInArrow(_with_names(function, names), schema)


def quoted(name: str) -> str:
    """Return the name of a column as an expression of Spark."""
    return "`" + name.replace("`", "``") + "`"


def _are_plain(names: tuple[str, ...]) -> bool:
    differ = len({name.lower() for name in names}) == len(names)
    return differ and all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names)


def _with_names(function: Batches, names: tuple[str, ...]) -> Batches:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batch.rename_columns(list(names)) for batch in batches)

    return run
