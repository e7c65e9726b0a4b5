"""This module turns the keys that a caller gives into key columns, partitions and buckets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.lookup.query.packed_keys import IntegerKey, KeyColumns, OneKey
from lakecore.lookup.query.table_view import Bucket, TableView
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import encode_row
from lakecore.row.bucket import assign_buckets
from lakecore.row.partition_values import partition_value
from lakecore.row.values import normal_array
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from lakecore.types.exact_array import exact_array
from lakecore.write.buckets.routing import partition_codes

__all__ = ["KeyReader", "Share"]

Rows = np.ndarray[Any, Any]
Share = tuple[Bucket, Rows]
"""These are the places of the keys that one bucket may have."""


@dataclass(frozen=True)
class KeyReader:
    """It reads keys of one table. `table` is its name in messages."""

    table: str
    schema: TableSchema
    options: TableOptions

    @cached_property
    def _key_type(self) -> RowType:
        key_type = self.schema.key_type
        KeyColumns(
            [pa.array([], field.type) for field in arrow_schema(key_type)], key_type
        )  # refuses other types
        return key_type

    @cached_property
    def _key_fields(self) -> tuple[pa.Field, ...]:
        return tuple(arrow_schema(self._key_type))

    def partition(self, values: Sequence[object]) -> bytes:
        """Return the serialised partition of its values. Raises InvalidInputError."""
        if not values and not self.schema.partition_keys:
            return EMPTY_ROW
        partition_type = self.schema.partition_type
        self._check_count("partition", partition_type.names, values)
        pairs = zip(partition_type.names, values, strict=True)
        return encode_row(
            [partition_value(name, value, partition_type) for name, value in pairs], partition_type
        )

    @cached_property
    def _integer_bits(self) -> int | None:
        """Return the bits of a key of one column of whole numbers; None for other keys."""
        fields = self._key_fields
        return fields[0].type.bit_width if len(fields) == 1 and pa.types.is_integer(fields[0].type) else None

    def one(self, key: Sequence[object]) -> OneKey | None:
        """Return one key, given by the values of the primary key without partition columns; None if one of
        them is, for no row has such a key. Raises InvalidInputError.
        """
        self._check_count("key", self.schema.trimmed_primary_keys, key)
        if None in key:
            return None
        bits, first = self._integer_bits, key[0]
        if bits is not None and type(first) is int and -(1 << bits - 1) <= first < 1 << bits - 1:
            return IntegerKey(first)
        return self.one_as_columns(key)

    def one_as_columns(self, key: Sequence[object]) -> KeyColumns:
        """Return one key without a None as columns of one row. Raises InvalidInputError."""
        arrays = []
        for kind, value in zip(self._key_fields, key, strict=True):
            try:
                arrays.append(exact_array(value, kind.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as err:
                raise InvalidInputError(
                    f"table {self.table}: key {kind.name}={value!r}: not a value of type {kind.type}"
                ) from err
        return KeyColumns.of(arrays, self._key_type)

    def columns(self, keys: pa.Table) -> KeyColumns:
        """Return the key columns. Raises InvalidInputError when one is missing or of another type."""
        names = self.schema.trimmed_primary_keys
        self._check_names(keys, names)
        return KeyColumns([keys.column(name) for name in names], self.schema.key_type)

    def complete(self, keys: pa.Table, names: Sequence[str]) -> Rows:
        """Return the places of the keys without a null in these columns: the others have no row."""
        self._check_names(keys, names)
        valid = np.ones(keys.num_rows, bool)
        for name in names:
            if keys.column(name).null_count:
                valid &= keys.column(name).is_valid().to_numpy()
        return np.flatnonzero(valid)

    def by_partition(self, keys: pa.Table) -> list[tuple[bytes, Rows]]:
        """Return the partitions that the keys name, with the places of their keys."""
        schema = self.schema
        self._check_names(keys, schema.partition_keys)
        rows = self.complete(keys, schema.primary_keys)
        codes, partitions = partition_codes(
            self._batch(keys, schema.partition_keys, rows), schema.partition_type
        )
        return [(partition, rows[codes == code]) for code, partition in enumerate(partitions)]

    def shares(
        self, keys: pa.Table, partitions: Sequence[tuple[bytes, Rows]], view: TableView
    ) -> list[Share]:
        """Return the buckets that keys may be in. Where a bucket is not a function of the key, these are all
        buckets of the partition.
        """
        fixed = self.options.bucket_mode in (BucketMode.HASH_FIXED, BucketMode.POSTPONE)
        out: list[Share] = []
        for partition, rows in partitions:
            buckets = view.buckets(partition)
            if not fixed:
                out += [((partition, bucket), rows) for bucket in buckets]
                continue
            for total in {bucket.total_buckets for bucket in buckets.values()}:
                numbers = self._buckets(keys, rows, total)
                present = [number for number in np.unique(numbers).tolist() if number in buckets]
                out += [((partition, number), rows[numbers == number]) for number in present]
        return out

    def fixed_shares(self, keys: pa.Table, total: int) -> list[Share]:
        """Return the bucket of each key, where all partitions have `total` buckets."""
        out: list[Share] = []
        for partition, rows in self.by_partition(keys):
            numbers = self._buckets(keys, rows, total)
            out += [((partition, number), rows[numbers == number]) for number in np.unique(numbers).tolist()]
        return out

    def _buckets(self, keys: pa.Table, rows: Rows, total: int) -> Rows:
        row_type = self.schema.row_type.select(self.schema.bucket_keys)
        batch = self._batch(keys, row_type.names, rows)
        return assign_buckets(batch, row_type, total, self.options.bucket_function.value)

    def _batch(self, keys: pa.Table, names: Sequence[str], rows: Rows) -> pa.RecordBatch:
        kinds = self.schema.row_type
        columns = [normal_array(keys.column(name), kinds.field(name).type) for name in names]
        if not columns:
            return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], [""])
        return pa.RecordBatch.from_arrays(columns, list(names)).take(pa.array(rows))

    def _check_names(self, keys: pa.Table, names: Sequence[str]) -> None:
        if missing := [name for name in names if name not in keys.column_names]:
            raise InvalidInputError(
                f"table {self.table}: keys need the columns {', '.join(names)}, but {missing[0]} is missing"
            )

    def _check_count(self, what: str, names: Sequence[str], values: Sequence[object]) -> None:
        if len(names) != len(values):
            raise InvalidInputError(
                f"table {self.table}: a {what} has {len(names)} values ({', '.join(names)}), but "
                f"{len(values)} were given"
            )
