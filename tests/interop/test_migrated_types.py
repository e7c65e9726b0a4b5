"""Types of parquet and avro that other programs write: Java reads a migrated file as lakecore does, or it is refused."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.catalog.catalog import Catalog
from lakecore.errors import UnsupportedError
from lakecore.jobs.definitions.migration import MigrateTable
from lakecore.jobs.migration import migrate_table
from tests.fuzz.row_lines import inserts, read_lines
from tests.support.golden import canonical
from tests.support.oracle import Oracle

UTC = datetime.UTC
TIME = datetime.time(1, 2, 3)
INSTANT = datetime.datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC)
PLAIN = INSTANT.replace(tzinfo=None)
PARQUET: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-1, None]),
    "uint8": (pa.uint8(), [255, 0]),
    "uint16": (pa.uint16(), [65535, None]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"]),
    "view": (pa.string_view(), ["a", None]),
    "fixed": (pa.binary(4), [b"abcd", None]),
    "decimal": (pa.decimal128(9, 2), [decimal.Decimal("-1.25"), None]),
    "date": (pa.date32(), [datetime.date(1969, 12, 31)]),
    "time32": (pa.time32("ms"), [TIME, None]),
    "milliseconds": (pa.timestamp("ms"), [PLAIN]),
    "microseconds": (pa.timestamp("us"), [PLAIN]),
    "instant": (pa.timestamp("us", "UTC"), [INSTANT]),
    "list": (pa.list_(pa.list_(pa.string())), [[["a", None], None], None]),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))]), [{"a": 1, "b": [1.5]}, None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], []]),
    "null": (pa.null(), [None]),
}
FOREIGN_PARQUET: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "uint32": (pa.uint32(), [2**32 - 1], "INT32 with Int"),
    "uint64": (pa.uint64(), [1], "INT64 with Int"),
    "float16": (pa.float16(), [1.5], "Float16"),
    "time64": (pa.time64("us"), [TIME], "INT64 with Time"),
    "nanoseconds": (pa.timestamp("ns"), [PLAIN], "nanoseconds"),
    "in a list": (pa.list_(pa.uint32()), [[1]], "INT32 with Int"),
}
AVRO: dict[str, tuple[Any, Any]] = {
    "long": ("long", 2**40),
    "bytes": ("bytes", b"\x00a"),
    "date": ({"type": "int", "logicalType": "date"}, datetime.date(2020, 1, 1)),
    "time": ({"type": "int", "logicalType": "time-millis"}, TIME),
    "timestamp": ({"type": "long", "logicalType": "timestamp-micros"}, INSTANT),
    "local timestamp": ({"type": "long", "logicalType": "local-timestamp-millis"}, PLAIN),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        decimal.Decimal("1.25"),
    ),
    "nullable": (["null", "string"], None),
    "array": ({"type": "array", "items": ["null", "string"]}, ["a", None]),
    "map": ({"type": "map", "values": "long"}, {"a": 1}),
    "record": ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}),
}
FOREIGN_AVRO: dict[str, tuple[Any, Any, str]] = {
    "null is last": (["string", "null"], "a", "a union of string, null"),
    "union": (["null", "int", "string"], "a", "a union of null, int, string"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", "enum"),
    "fixed": ({"type": "fixed", "name": "f", "size": 1}, b"a", "fixed"),
    "uuid": (
        {"type": "string", "logicalType": "uuid"},
        "12345678-1234-5678-1234-567812345678",
        "logical type uuid",
    ),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, TIME, "logical type time-micros"),
    "null": ("null", None, "null"),
    "in a list": (
        {"type": "array", "items": {"type": "enum", "name": "e", "symbols": ["A"]}},
        ["A"],
        "enum",
    ),
    "in a map": ({"type": "map", "values": ["int", "null"]}, {"a": 1}, "a union of int, null"),
    "in a record": (
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "int", "long"]}]},
        {"x": 1},
        "a union of null, int, long",
    ),
}


def write_parquet(root: Path, kind: pa.DataType, values: list[Any], **how: Any) -> None:
    root.mkdir()
    rows = pa.table({"k": pa.array(range(len(values)), pa.int32()), "v": pa.array(values, kind)})
    pq.write_table(rows, root / "part-0", **how)


def write_avro(root: Path, kind: Any, value: Any) -> None:
    root.mkdir()
    fields = [{"name": "k", "type": "int"}, {"name": "v", "type": kind}]
    with (root / "part-0").open("wb") as file:
        schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
        fastavro.writer(file, schema, [{"k": 1, "v": value}])


def migrate(tmp_path: Path) -> Catalog:
    lake = lakecore.load_catalog(tmp_path / "wh", create_warehouse=True)
    migrate_table.run(MigrateTable(source=str(tmp_path / "hive"), target="d.t"), lake)
    return lake


def assert_java_agrees(lake: Catalog, tmp_path: Path, judges: tuple[Oracle, ...], rows: int) -> None:
    lines = read_lines(lake.load_table("d.t").scan())
    assert len(lines) == rows
    for judge in judges:
        assert inserts(canonical(judge.read(tmp_path / "wh", "d.t"))) == lines


@pytest.mark.parametrize("integers", [True, False], ids=["integers", "bytes"])
@pytest.mark.parametrize("case", PARQUET)
def test_java_reads_types_of_parquet(
    case: str, integers: bool, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """The second way has other names in lists, no schema of Arrow, and pages of version 2."""
    kind, values = PARQUET[case]
    write_parquet(
        tmp_path / "hive",
        kind,
        values,
        store_decimal_as_integer=integers,
        use_compliant_nested_type=integers,
        store_schema=integers,
        data_page_version="1.0" if integers else "2.0",
    )
    assert_java_agrees(migrate(tmp_path), tmp_path, (oracle, oracle2), len(values))


def test_java_reads_times_of_twelve_bytes(tmp_path: Path, oracle: Oracle, oracle2: Oracle) -> None:
    write_parquet(tmp_path / "hive", pa.timestamp("ns"), [PLAIN, None], use_deprecated_int96_timestamps=True)
    assert_java_agrees(migrate(tmp_path), tmp_path, (oracle, oracle2), 2)


@pytest.mark.parametrize("case", AVRO)
def test_java_reads_types_of_avro(case: str, tmp_path: Path, oracle: Oracle, oracle2: Oracle) -> None:
    write_avro(tmp_path / "hive", *AVRO[case])
    assert_java_agrees(migrate(tmp_path), tmp_path, (oracle, oracle2), 1)


@pytest.mark.parametrize("case", FOREIGN_PARQUET)
def test_types_of_parquet_that_java_does_not_read_are_refused(case: str, tmp_path: Path) -> None:
    kind, values, problem = FOREIGN_PARQUET[case]
    write_parquet(tmp_path / "hive", kind, values)
    with pytest.raises(UnsupportedError, match=rf"part-0: Java Paimon does not read.*v.* is .*{problem}"):
        migrate(tmp_path)
    assert not (tmp_path / "wh" / "d.db").exists()


@pytest.mark.parametrize("case", FOREIGN_AVRO)
def test_types_of_avro_that_java_does_not_read_are_refused(case: str, tmp_path: Path) -> None:
    kind, value, problem = FOREIGN_AVRO[case]
    write_avro(tmp_path / "hive", kind, value)
    with pytest.raises(UnsupportedError, match=rf"part-0: Java Paimon does not read.*v is .*{problem}"):
        migrate(tmp_path)
    assert not (tmp_path / "wh" / "d.db").exists()
