"""This module turns serialised keys into Arrow columns, and found rows into serialised rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.lookup.query.found_rows import FoundRows
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_batch import encode_batch
from lakecore.row.binary_columns import decode_columns
from lakecore.row.binary_row import decode_row
from lakecore.row.values import normal_array, values_array
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

__all__ = ["RowCodec"]


@dataclass(frozen=True)
class RowCodec:
    """It converts the rows of one table. Costs grow with the number of keys, and with their bytes."""

    schema: TableSchema

    @cached_property
    def key_type(self) -> RowType:
        """Return the primary key without partition columns."""
        return self.schema.row_type.select(self.schema.trimmed_primary_keys)

    def partition_values(self, data: bytes) -> tuple[object, ...]:
        """Return the Python values of a serialised partition. Raises CorruptDataError."""
        partition_type = self.schema.partition_type
        values = decode_row(data, partition_type, "partition of a request")
        pairs = zip(values, partition_type.fields, strict=True)
        return tuple(values_array([value], field.type)[0].as_py() for value, field in pairs)

    def keys_table(self, keys: Sequence[bytes]) -> pa.Table:
        """Return serialised keys as columns. Raises CorruptDataError, InvalidInputError."""
        columns = decode_columns(keys, self.key_type, "keys of a request")
        return pa.Table.from_arrays(columns, schema=self._key_schema)

    def keys_bytes(self, keys: pa.Table) -> tuple[bytes, ...]:
        """Return the keys of a table serialised."""
        return _encode(keys, self.key_type)

    def columns_bytes(self, rows: pa.Table, names: Sequence[str]) -> tuple[bytes, ...]:
        """Return rows of these columns serialised."""
        return _encode(rows, self.schema.row_type.select(tuple(names)))

    def values_bytes(self, answer: FoundRows) -> tuple[bytes | None, ...]:
        """Return the rows of an answer serialised; None where a key has none."""
        rows = iter(_encode(answer.rows.filter(answer.matches), self.schema.row_type))
        return tuple(next(rows) if is_present else None for is_present in answer.matches.to_pylist())

    def found_rows(self, values: Sequence[bytes | None]) -> FoundRows:
        """Return serialised rows as columns. Raises CorruptDataError."""
        row_type = self.schema.row_type
        columns = decode_columns([one for one in values if one is not None], row_type, "rows of an answer")
        names = [pa.field(field.name, field.type, True) for field in arrow_schema(row_type)]
        table = pa.Table.from_arrays(columns, schema=pa.schema(names))
        is_present = pa.array([value is not None for value in values], pa.bool_())
        places = pc.subtract(pc.cumulative_sum(is_present.cast(pa.int64())), 1)
        return FoundRows(is_present, table.take(pc.if_else(is_present, places, pa.scalar(None, pa.int64()))))

    @cached_property
    def _key_schema(self) -> pa.Schema:
        return pa.schema([field.with_nullable(True) for field in arrow_schema(self.key_type)])


def _encode(table: pa.Table, data_type: RowType) -> tuple[bytes, ...]:
    if not table.num_rows:
        return ()
    columns = [normal_array(table.column(field.name), field.type) for field in data_type.fields]
    rows = encode_batch(columns, data_type)
    arity = len(data_type.fields).to_bytes(4, "big")
    starts = rows.starts.tolist()
    data = rows.words.astype("<u8").tobytes()
    return tuple(arity + data[8 * first : 8 * last] for first, last in pairwise(starts))
