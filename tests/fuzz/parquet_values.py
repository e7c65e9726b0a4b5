"""Columns of random values for parquet files: few values and many, long ones, nulls, NaN and both zeros."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

__all__ = ["KINDS", "some_batch"]

KINDS = (
    "BIGINT", "INT", "SMALLINT", "TINYINT", "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL(9, 2)", "DECIMAL(18, 4)",
    "DECIMAL(30, 5)", "STRING", "STRING", "VARCHAR(20)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>", "ROW<a INT, b ARRAY<STRING>>",
)  # fmt: skip

Make = Callable[[random.Random], Any]


def some_batch(dice: random.Random, row_type: RowType, rows: int, number: int) -> pa.RecordBatch:
    """Rows of file `number`; the column `id` counts over all files."""
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(row_type)])
    columns = []
    for field in schema:
        if field.name == "id":
            columns.append(pa.array(range(number * 700, number * 700 + rows), pa.int64()))
            continue
        columns.append(_column(dice, field.type, rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(dice: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    make, nulls = _maker(kind), dice.choice((0.0, 0.0, 0.1, 1.0))
    pool = [make(dice) for _ in range(dice.choice((1, 3, 50, 1000)))]
    plain = dice.random() < 0.3  # values that do not repeat
    values = [make(dice) if plain else dice.choice(pool) for _ in range(rows)]
    if dice.random() < 0.2:  # first few values, then many
        values = [dice.choice(pool[:2]) if at < rows // 2 else make(dice) for at in range(rows)]
    return pa.array([None if dice.random() < nulls else value for value in values], kind)


def _maker(kind: pa.DataType) -> Make:
    if pa.types.is_boolean(kind):
        return lambda dice: dice.random() < 0.5
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return lambda dice: dice.choice(
            (0, -1, most - 1, -most, dice.randrange(-100, 100), dice.randrange(-most, most))
        )
    if pa.types.is_floating(kind):
        return lambda dice: dice.choice((0.0, -0.0, float("nan"), 1.5, -2.25, dice.randrange(-999, 999) / 8))
    if pa.types.is_decimal(kind):
        most = 10**kind.precision
        return lambda dice: Decimal(dice.randrange(1 - most, most)).scaleb(-kind.scale)
    if pa.types.is_string(kind):
        return lambda dice: dice.choice(
            ("", "a", "\u00e9\U0001f680", "x" * 19, f"text {dice.randrange(10**6)}")
        )
    if pa.types.is_binary(kind):
        return lambda dice: dice.randbytes(dice.choice((0, 1, 30, 300)))
    if pa.types.is_date(kind):
        return lambda dice: dice.randrange(-30_000, 30_000)
    if pa.types.is_time(kind):
        return lambda dice: dice.randrange(86_400_000)
    if pa.types.is_timestamp(kind):
        unit = {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        return lambda dice: dice.randrange(-(10**8) * unit, 4 * 10**9 * unit)
    return _nested(kind)


def _nested(kind: pa.DataType) -> Make:
    if pa.types.is_struct(kind):
        parts = [(field.name, _maker(field.type)) for field in kind]
        return lambda dice: {name: None if dice.random() < 0.2 else make(dice) for name, make in parts}
    if pa.types.is_map(kind):
        key, item = _maker(kind.key_type), _maker(kind.item_type)
        return lambda dice: list({key(dice): item(dice) for _ in range(dice.randrange(4))}.items())
    element = _maker(kind.value_type)
    return lambda dice: [None if dice.random() < 0.2 else element(dice) for _ in range(dice.randrange(4))]
