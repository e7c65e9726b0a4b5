"""This module computes the bucket of each row by the bucket function of the table
(`bucket-function.type`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.row.hashing import hash_rows, hive_hash_rows
from lakecore.row.values import normal_array
from lakecore.types.datatypes import AtomicType, RowType, TypeRoot

__all__ = ["assign_buckets"]

_MAX_INT = 0x7FFFFFFF


def assign_buckets(
    batch: pa.RecordBatch | pa.Table, bucket_key_type: RowType, total: int, function: str
) -> NDArray[np.int32]:
    """Return the bucket numbers of the rows, in [0, `total`). `function` is default, mod or hive.

    Columns of `bucket_key_type` are taken from `batch` by name, in bucket-key order.
    """
    if total <= 0:
        raise InvalidInputError(
            f"option bucket={total}: rows have a bucket number only with 1 bucket or more"
        )
    if not bucket_key_type.fields:
        raise InvalidInputError("rows have a bucket number only with a bucket key; set option bucket-key")
    columns = [batch.column(field.name) for field in bucket_key_type.fields]
    if batch.num_rows == 0:
        return np.zeros(0, np.int32)
    if function == "default":
        hashes = hash_rows(columns, bucket_key_type).astype(np.int64)
        return (np.abs(hashes) % total).astype(np.int32)
    if function == "mod":
        return _mod(columns, bucket_key_type, total)
    if function == "hive":
        hashes = hive_hash_rows(columns, bucket_key_type).astype(np.int64)
        return ((hashes & _MAX_INT) % total).astype(np.int32)
    raise UnsupportedError(f"option bucket-function.type={function!r}: use default, mod or hive")


def _mod(columns: list[pa.Array], key: RowType, total: int) -> NDArray[np.int32]:
    """Return the floorMod of one INT or BIGINT key."""
    types = [field.type for field in key.fields]
    kind = types[0]
    if (
        len(types) != 1
        or not isinstance(kind, AtomicType)
        or kind.root not in (TypeRoot.INT, TypeRoot.BIGINT)
    ):
        raise UnsupportedError(
            f"bucket-function.type=mod over ({', '.join(key.names)}): use one INT or BIGINT bucket key"
        )
    values = normal_array(columns[0], kind)
    if values.null_count:
        raise InvalidInputError(f"bucket key {key.names[0]} is null: bucket-function.type=mod needs a value")
    numbers = pc.cast(values, pa.int64()).to_numpy(zero_copy_only=False)
    buckets: NDArray[np.int32] = (numbers % total).astype(np.int32)
    return buckets
