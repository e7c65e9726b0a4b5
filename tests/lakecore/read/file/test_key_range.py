"""Ranges of keys: adjoining ranges read every row once, whatever the file looks like."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from lakecore.errors import NotFoundError
from lakecore.read.file.key_range import KeyRange, RangeRows, cut_points, read_range
from lakecore.read.file.sizes import ReadSizes
from lakecore.types.datatypes import parse_type
from tests.support.builders import table_schema

ROWS = 3000
TYPES: dict[str, tuple[str, Any]] = {
    "int": ("INT NOT NULL", lambda i: i * 7 - 5000),
    "bigint": ("BIGINT NOT NULL", lambda i: (i - 1500) * 2**50),
    "text": ("STRING NOT NULL", lambda i: f"{'é' * (i // 700)}😀key {i:05d}" if i // 700 else f"key {i:05d}"),
    "date": ("DATE NOT NULL", lambda i: i - 1500),
    "decimal": ("DECIMAL(30, 2) NOT NULL", lambda i: Decimal(i - 1500) / 4),
    "short decimal": ("DECIMAL(9, 2) NOT NULL", lambda i: Decimal(i - 1500) / 4),
    "timestamp": ("TIMESTAMP(6) NOT NULL", lambda i: (i - 1500) * 1000),
    "nanos": ("TIMESTAMP(9) NOT NULL", lambda i: i - 1500),
    "double": ("DOUBLE NOT NULL", lambda i: i / 8 - 100),
    "bytes": ("BYTES NOT NULL", lambda i: i.to_bytes(4, "big") + b"\xff"),
}


def rows_of(table: Any, keys: list[tuple[Any, ...]]) -> Any:
    return table.write([(*key, n, 0, *key, f"v{n}") for n, key in enumerate(keys)], chunk=500)


def read(table: Any, file: Any, bounds: KeyRange) -> list[Any]:
    columns = (*table.schema.trimmed_primary_keys, "v")
    batches = read_range(table.context, table.bucket_dir, file, columns, RangeRows(bounds), ReadSizes(700))
    return [value for batch in batches for value in batch.column("v").to_pylist()]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in TYPES for kind in ("parquet", "avro") if (name, kind) != ("nanos", "avro")],
)
def test_adjoining_ranges_tile_the_file(small_table: Any, name: str, kind: str) -> None:
    key_type, make = TYPES[name]
    schema = table_schema("k INT NOT NULL, v STRING")
    key = replace(schema.fields[0], type=parse_type(key_type))
    table = small_table(replace(schema, fields=(key, schema.fields[1])), kind, block_size=60_000)
    keys = sorted((make(i),) for i in range(ROWS))
    file = rows_of(table, keys)
    cuts = [None, keys[0], keys[1], keys[999], keys[1000], keys[2718], None]
    found = [read(table, file, KeyRange(low, high)) for low, high in pairwise(cuts)]
    assert [len(part) for part in found] == [0, 1, 998, 1, 1718, 282]
    assert [value for part in found for value in part] == [f"v{n}" for n in range(ROWS)]


def test_two_key_columns_and_prefixes(small_table: Any) -> None:
    table = small_table(table_schema("a INT NOT NULL, b STRING NOT NULL, v STRING", primary_keys=("a", "b")))
    keys = [(i // 1000, f"{i:05d}") for i in range(ROWS)]
    file = rows_of(table, keys)
    assert len(read(table, file, KeyRange((1,), (2,)))) == 1000
    assert len(read(table, file, KeyRange((1, "01500"), (2,)))) == 500
    assert len(read(table, file, KeyRange((1, "01500"), (1, "01501")))) == 1
    assert read(table, file, KeyRange((5,), None)) == []
    assert len(read(table, file, KeyRange(None, None))) == ROWS


def test_cut_points_are_first_keys_of_pages(small_table: Any) -> None:
    table = small_table(table_schema("k STRING NOT NULL, v STRING"))
    file = rows_of(table, [(f"{i:06d}",) for i in range(25_000)])
    points = cut_points(table.context, table.bucket_dir, file)
    assert points == ((("000000",), 20_000), (("020000",), 5000))
    assert pickle.loads(pickle.dumps(KeyRange(points[1][0], None))) == KeyRange(("020000",), None)


def test_files_that_cannot_be_cut(small_table: Any) -> None:
    avro = small_table(table_schema("k INT NOT NULL, v STRING"), "avro")
    file = rows_of(avro, [(1,)])
    assert cut_points(avro.context, avro.bucket_dir, file) is None
    table = small_table(table_schema("k DOUBLE NOT NULL, v STRING"))
    file = rows_of(table, [(1.0,)])
    assert cut_points(table.context, table.bucket_dir, file) is None
    table.file_io.delete(f"{table.bucket_dir}/{file.file_name}")
    with pytest.raises(NotFoundError, match="expired"):
        cut_points(table.context, table.bucket_dir, file)


@pytest.mark.parametrize("thin", [False, True])
def test_thin_files(small_table: Any, thin: bool) -> None:
    table = small_table(table_schema("k INT NOT NULL, v STRING"))
    file = table.write([(i, i, 0, i, f"v{i}") for i in range(100)], thin=thin)
    assert read(table, file, KeyRange((10,), (12,))) == ["v10", "v11"]
