"""The format `lakecore` without Spark: what Spark calls, in the order in which it calls it, with pickles in between."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from lakecore.row.json_rows import batch_to_json
from lakecore.spark.data_source.format import LakecoreSource
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from lakecore.types.text import parse_timestamp
from tests.support.golden import canonical

__all__ = ["canonical_rows", "read_source"]


def read_source(
    options: dict[str, str], filters: Sequence[Any] = (), schema: Any = None
) -> tuple[pa.Table, list[Any], int]:
    """The rows that Spark gets, the conditions that it has to evaluate itself, and the number of tasks."""
    source = pickle.loads(pickle.dumps(LakecoreSource(options)))
    found = source.schema() if schema is None else schema
    reader = source.reader(found)
    left = list(reader.pushFilters(list(filters)))
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    reader = pickle.loads(pickle.dumps(reader))
    wanted = to_arrow_schema(found, timezone="UTC")
    batches = [batch for part in parts for batch in reader.read(part)]
    assert all(batch.schema.equals(wanted) for batch in batches)
    return pa.Table.from_batches(batches, wanted), left, len(parts)


def canonical_rows(rows: pa.Table, row_type: RowType, kind: str | None = None) -> list[str]:
    """Rows in Spark's types as the oracle spells them, with a kind if one is given."""
    schema = arrow_schema(row_type)
    pairs = zip(rows.columns, schema, strict=True)
    columns = [_cast(column.combine_chunks(), field.type) for column, field in pairs]
    back = pa.Table.from_arrays(columns, schema=schema)
    return canonical(_lines(back.to_batches(), row_type, kind))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(column.type) and pa.types.is_timestamp(
        kind
    ):  # Arrow does not parse the smallest one
        nanos = [None if text is None else parse_timestamp(text) for text in column.to_pylist()]
        return pa.array(nanos, pa.int64()).view(kind)
    if (
        pa.types.is_struct(kind) and column.null_count
    ):  # Spark's nulls have null parts, also those of a VARIANT
        parts = [_cast(pc.struct_field(column, at).fill_null(b""), part.type) if not part.nullable else
                 _cast(pc.struct_field(column, at), part.type) for at, part in enumerate(kind)]  # fmt: skip
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    return pc.cast(column, kind)


def _lines(batches: Iterable[pa.RecordBatch], row_type: RowType, kind: str | None) -> Iterable[str]:
    return (line for batch in batches for line in batch_to_json(batch, row_type, kind))
