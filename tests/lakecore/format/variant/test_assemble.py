"""Variants from typed columns of every type that their format knows; groups that break its rules.

What Java writes is judged in `tests/interop/test_adopted_files.py`.
"""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import CorruptDataError, LakeError, UnsupportedError
from lakecore.format.canonical import canonical
from lakecore.format.parquet.reader import ParquetReader
from lakecore.fs.local import LocalFileIO
from lakecore.row.variant import parse_variant, variant_text
from lakecore.types.datatypes import parse_type

_ID = uuid.UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")
_MICROS = 1_730_982_834_123_456
FIELD = [("value", pa.binary()), ("typed_value", pa.int64())]
SCALARS: list[tuple[pa.DataType, Any, str]] = [
    (pa.timestamp("us", "UTC"), _MICROS, '"2024-11-07 12:33:54.123456+00:00"'), (pa.timestamp("us"), -1, '"1969-12-31 23:59:59.999999"'),
    (pa.timestamp("ns", "UTC"), _MICROS * 1000 + 7, '"2024-11-07 12:33:54.123456007+00:00"'), (pa.timestamp("ns"), 1, '"1970-01-01 00:00:00.000000001"'),
    (pa.time64("us"), 45_234_123_456, '"12:33:54.123"'), (pa.uuid(), _ID.bytes, f'"{_ID}"'), (pa.binary(16), _ID.bytes, f'"{_ID}"'),
    (pa.decimal128(9, 2), Decimal("-1.50"), "-1.5"), (pa.decimal128(18, 12), Decimal("0.000000000001"), "0.000000000001"),
    (pa.decimal128(38, 0), Decimal(10**37), str(10**37)), (pa.date32(), date(1969, 12, 31), '"1969-12-31"'), (pa.binary(), b"\0\xff", '"AP8="'),
    (pa.float32(), 1.5, "1.5"), (pa.float64(), float("nan"), '"NaN"'), (pa.int8(), -128, "-128"), (pa.bool_(), False, "false"),
    (pa.string(), "x" * 70, '"' + "x" * 70 + '"'), (pa.large_string(), "é", '"é"'),
]  # fmt: skip


def read(kind: pa.DataType, rows: list[Any], tmp_path: Path, keys: bytes = b"\1\0\0") -> list[str | None]:
    """`rows`: (value, typed_value); None is a row without variant."""
    group = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", kind)])
    parts = [
        pa.array([keys] * len(rows)),
        pa.array([row and row[0] for row in rows], pa.binary()),
        typed(kind, [row and row[1] for row in rows]),
    ]
    column = pa.StructArray.from_arrays(
        parts, fields=list(group), mask=pa.array([row is None for row in rows])
    )
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"v": column}), path)
    found = [batch.column(0) for batch in ParquetReader(LocalFileIO(), path).batches()]
    values = [canonical(array, parse_type("VARIANT"), path).to_pylist() for array in found]
    return [row and variant_text(row["value"], row["metadata"]) for rows in values for row in rows]


def typed(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.array(values, pa.int64()).view(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


@pytest.mark.parametrize("case", SCALARS, ids=lambda case: str(case[0]))
def test_scalars(case: tuple[pa.DataType, Any, str], tmp_path: Path) -> None:
    """Alone, beside values that the type does not fit, as the element of a list and as a field."""
    kind, value, text = case
    other = parse_variant('[1,"x"]')[0]
    assert read(kind, [(None, value), (other, None), None, (None, None)], tmp_path) == [
        text, '[1,"x"]', None, "null"]  # fmt: skip
    if isinstance(kind, pa.BaseExtensionType):
        return
    one = {"value": None, "typed_value": typed(kind, [value])[0]}
    element = pa.list_(pa.struct([("value", pa.binary()), ("typed_value", kind)]))
    lists = [(None, [one, {"value": other, "typed_value": None}, {"value": None, "typed_value": None}])]
    assert read(element, lists, tmp_path) == [f'[{text},[1,"x"],null]']
    fields = pa.struct([("b", element.value_type), ("a", element.value_type)])
    rest, keys = parse_variant('{"c":true}')
    found = read(fields, [(rest, {"b": one, "a": {"value": None, "typed_value": None}})], tmp_path, keys)
    assert found == [f'{{"b":{text},"c":true}}']


BROKEN: dict[str, tuple[pa.DataType, tuple[Any, Any], type[LakeError], str]] = {
    "a value beside a number": (pa.int64(), (b"\0", 1), CorruptDataError, "stored both shredded and unshredded"),
    "no object beside fields": (pa.struct([("a", pa.struct(FIELD))]), (b"\0", {"a": {}}), CorruptDataError, "is not an object"),
    "an unsigned number": (pa.uint32(), (None, None), UnsupportedError, "uint32"),
    "milliseconds": (pa.timestamp("ms"), (None, None), UnsupportedError, r"timestamp\[ms\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_groups_that_break_the_rules(case: str, tmp_path: Path) -> None:
    kind, row, error, told = BROKEN[case]
    with pytest.raises(error, match=told):
        read(kind, [row], tmp_path)
