"""Buckets: numbers that Java gave, and the rows of files that Java wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import encode_binary_row
from lakecore.row.bucket import assign_buckets
from lakecore.row.hashing import hash_rows
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from tests.support.golden import GoldenTable
from tests.support.typed_values import atomic_types, row_of, row_types, rows_of


def _buckets(values: list[Any], kind: str, total: int, function: str) -> list[int]:
    row_type = row_of(kind)
    batch = rows_batch([(value,) for value in values], row_type, arrow_schema(row_type))
    return assign_buckets(batch, row_type, total, function).tolist()


def test_numbers_of_java() -> None:
    assert _buckets(list(range(7)), "INT", 2, "default") == [1, 0, 0, 1, 0, 0, 0]
    for function, expected in {"default": [1, 0, 7], "mod": [1, 2, 3], "hive": [1, 1, 1]}.items():
        assert [_buckets([-7], "INT", total, function)[0] for total in (2, 3, 10)] == expected


@pytest.mark.parametrize(
    "name",
    [
        "g1.a_append_bucket",
        "g1.a_append_bucket_part_mod",
        "g1.a_pk_composite",
        "g1.a_part_decimal_pk",
        "g1.a_pk_dedup_b3_part",
    ],
)
def test_rows_of_java_files_hash_to_their_bucket(name: str, golden: Callable[[str], GoldenTable]) -> None:
    table = golden(name)
    path = max(table.path.glob("schema/schema-*"))
    schema = TableSchema.from_json(path.read_text(), str(path))
    options = TableOptions.from_schema(schema)
    keys = schema.row_type.select(schema.bucket_keys)
    rows = 0
    for file in table.path.rglob("data-*.parquet"):
        found = pq.ParquetFile(file).read(columns=list(keys.names))
        bucket = int(re.search(r"bucket-(\d+)", str(file))[1])  # type: ignore[index]
        got = assign_buckets(found, keys, options.bucket, options.bucket_function.value)
        assert set(got.tolist()) <= {bucket}, file
        rows += len(got)
    assert rows


def _murmur(data: bytes) -> int:
    """The published algorithm, one word at a time."""
    mask, h = 0xFFFFFFFF, 42
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        h ^= k
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


@settings(max_examples=100)
@given(st.data())
def test_hash_equals_murmur_of_each_row(data: st.DataObject) -> None:
    row_type = data.draw(row_types(atomic_types(), max_size=3))
    rows = data.draw(st.lists(rows_of(row_type), min_size=1, max_size=8))
    batch = rows_batch(rows, row_type, arrow_schema(row_type))
    expected = [_murmur(encode_binary_row(row, row_type)) for row in rows]
    assert hash_rows(batch.columns, row_type).tolist() == expected


def _hive_text(data: bytes) -> int:
    h = 0
    for byte in data:
        h = 31 * h + (byte - 256 if byte > 127 else byte)
    return h & 0x7FFFFFFF


@given(st.lists(st.none() | st.text(max_size=9), min_size=1, max_size=9))
def test_hive_hash_of_texts(texts: list[str | None]) -> None:
    expected = [_hive_text((text or "").encode()) % 7 for text in texts]
    assert _buckets(texts, "STRING", 7, "hive") == expected


def test_bad_requests() -> None:
    with pytest.raises(InvalidInputError, match="bucket=0"):
        _buckets([1], "INT", 0, "default")
    with pytest.raises(UnsupportedError, match="mod"):
        _buckets(["x"], "STRING", 2, "mod")
    with pytest.raises(InvalidInputError, match="null"):
        _buckets([None], "INT", 2, "mod")
    with pytest.raises(UnsupportedError, match="'xx'"):
        _buckets([1], "INT", 2, "xx")
    with pytest.raises(InvalidInputError, match="bucket-key"):
        assign_buckets(pa.record_batch({"a": [1]}), row_of(), 2, "default")
