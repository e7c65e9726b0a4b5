"""Old files under a newer schema: by field id, nested too, with the casts that Java Paimon makes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.read.columns.cast import cast_atomic
from lakecore.read.columns.evolve import evolve
from lakecore.row.values import array_values, values_array
from lakecore.types.datatypes import AtomicType, DataField, parse_type
from tests.support.builders import table_schema

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def fields(*columns: tuple[int, str, Any]) -> tuple[DataField, ...]:
    return tuple(DataField(number, name, parse_type(kind)) for number, name, kind in columns)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_add_drop_rename_reorder_widen_and_reuse_a_name(small_table: Any, kind: str) -> None:
    old = replace(
        table_schema(primary_keys=()),
        fields=fields(
            (0, "k", "INT NOT NULL"), (1, "a", "INT"), (2, "b", "STRING"), (3, "c", "DECIMAL(4, 1)")
        ),
    )
    table = small_table(old, kind)
    first = table.write([(1, 10, "x", Decimal("1.5")), (2, None, None, None)])
    new = replace(
        old,
        id=1,
        fields=fields((4, "b", "STRING"), (1, "renamed", "BIGINT"), (3, "c", "DECIMAL(9, 1)"), (0, "k", "DOUBLE NOT NULL"), (5, "e", "DATE")),
    )  # fmt: skip
    table.evolve(new)
    second = table.write([("B", 7, Decimal("2.5"), 3.0, 1)])
    assert table.read(first, second) == [
        (None, 10, Decimal("1.5"), 1.0, None),
        (None, None, None, 2.0, None),
        ("B", 7, Decimal("2.5"), 3.0, 1),
    ]


def test_old_key_value_files(small_table: Any) -> None:
    schema = table_schema("k INT NOT NULL, v INT")
    table = small_table(schema)
    first = table.write([(1, 0, 0, 1, 5), (2, 1, 0, 2, 6)])
    table.evolve(
        replace(
            schema,
            id=1,
            fields=(replace(schema.fields[0], name="key"), *fields((2, "v", "STRING"))),
            primary_keys=("key",),
        )
    )
    second = table.write([(2, 2, 2, 2, "new")])
    assert table.read(first, second) == [(1, None), (2, "new")]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_nested_fields(small_table: Any, kind: str) -> None:
    def row(*parts: dict[str, Any]) -> Any:
        return {"type": "ROW", "fields": list(parts)}

    a, b = {"id": 10, "name": "a", "type": "INT"}, {"id": 11, "name": "b", "type": "STRING"}
    old_row, array = row(a, b), {"type": "ARRAY", "element": row(a)}
    table = small_table(replace(table_schema(primary_keys=()), fields=fields((0, "r", old_row), (1, "l", array), (2, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": old_row}))), kind)  # fmt: skip
    old = table.write([((1, "x"), [(1,), None], [("k", (5, "y"))]), (None, None, None)])
    renamed, added = {"id": 11, "name": "bb", "type": "STRING"}, {"id": 12, "name": "a", "type": "DATE"}
    new_row = row(renamed, added, {**a, "name": "n", "type": "BIGINT"})
    table.evolve(replace(table.schema, id=1, fields=fields((0, "r", new_row), (1, "l", {"type": "ARRAY", "element": row(added, {**a, "name": "n"})}), (2, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": new_row}))))  # fmt: skip
    assert table.read(old) == [
        (("x", None, 1), [(None, 1), None], [("k", ("y", None, 5))]),
        (None, None, None),
    ]


CASTS: list[tuple[str, str, Any, Any]] = [
    ("INT", "TINYINT", 300, 44),
    ("BIGINT", "INT", 2**40 + 5, 5),
    ("BIGINT", "DOUBLE", 2**53 + 1, float(2**53)),
    ("DOUBLE", "INT", 1e300, 2**31 - 1),
    ("DOUBLE", "INT", float("nan"), 0),
    ("DOUBLE", "BIGINT", -1e300, -(2**63)),
    ("DOUBLE", "TINYINT", 300.9, 44),
    ("DOUBLE", "INT", -1.9, -1),
    ("INT", "DECIMAL(5, 1)", 99999, None),
    ("INT", "DECIMAL(5, 1)", -12, Decimal("-12.0")),
    ("DOUBLE", "DECIMAL(5, 1)", 2.25, Decimal("2.3")),
    ("DOUBLE", "DECIMAL(5, 1)", 1e300, None),
    ("DECIMAL(10, 2)", "DECIMAL(5, 1)", Decimal("-0.05"), Decimal("-0.1")),
    ("DECIMAL(10, 2)", "TINYINT", Decimal("-1.99"), -1),
    ("DECIMAL(10, 2)", "STRING", Decimal("12.50"), "12.50"),
    ("DECIMAL(10, 2)", "DOUBLE", Decimal("12.50"), 12.5),
    ("BOOLEAN", "INT", True, 1),
    ("BOOLEAN", "STRING", False, "false"),
    ("BOOLEAN", "DECIMAL(3, 1)", True, Decimal("1.0")),
    ("BOOLEAN", "DECIMAL(18, 18)", True, None),
    ("INT", "BOOLEAN", 7, True),
    ("INT", "VARCHAR(3)", 12345, "123"),
    ("INT", "CHAR(4)", 12, "12  "),
    ("DOUBLE", "STRING", 1e10, "1.0E10"),
    ("FLOAT", "STRING", 1.5, "1.5"),
    ("DECIMAL(38, 0)", "DECIMAL(29, 0)", Decimal(10**29 - 1), Decimal(10**29 - 1)),
    ("STRING", "INT", "-12.9", -12),
    ("STRING", "INT", ".", 0),
    ("STRING", "TINYINT", "-128", -128),
    ("STRING", "BOOLEAN", "Yes", True),
    ("STRING", "FLOAT", "16777217.0000000000001", 16777218.0),
    ("STRING", "DOUBLE", " 1.5f\0", 1.5),
    ("STRING", "DECIMAL(5, 1)", "1.25", Decimal("1.3")),
    ("STRING", "DECIMAL(38, 0)", "9" * 38, Decimal(10**38 - 1)),
    ("STRING", "DECIMAL(5, 1)", "0e99", Decimal("0.0")),
    ("STRING", "DATE", "1970-01-02", 1),
    ("STRING", "DATE", "12", 12),
    ("STRING", "DATE", "1970\t", 0),
    ("STRING", "TIME(3)", "1 ", 3_600_000),
    ("STRING", "TIME(3)", "00:00:01.9995", 2000),
    ("STRING", "TIME(3)", "00:00:01.999a", 2000),
    ("STRING", "TIMESTAMP(0)", "1970-01-01 00:00:01.9", SECOND),
    ("STRING", "TIMESTAMP(6)", "-1", -1000),
    ("STRING", "VARCHAR(2)", "añb", "añ"),
    ("STRING", "VARBINARY(2)", "abc", b"ab"),
    ("BYTES", "CHAR(5)", b"abc", "abc"),
    ("BINARY(3)", "BINARY(5)", b"abc", b"abc\0\0"),
    ("DATE", "STRING", -719162, "0001-01-01"),
    ("DATE", "TIMESTAMP(3)", -1, -DAY),
    ("TIME(3)", "STRING", 36672340, "10:11:12.34"),
    ("TIME(3)", "STRING", 0, "00:00:00.0"),
    ("TIME(3)", "TIMESTAMP(6)", 1500, 1_500_000_000),
    ("TIMESTAMP(9)", "TIMESTAMP(3)", -1, -1_000_000),
    ("TIMESTAMP(6)", "TIMESTAMP(0)", -1000, 0),
    ("TIMESTAMP(6)", "TIMESTAMP(0)", 1_999_999_000, SECOND),
    ("TIMESTAMP(3)", "TIMESTAMP(9)", 1_000_000, 1_000_000),
    ("TIMESTAMP(3)", "DATE", -1_000_000, 0),
    ("TIMESTAMP(3)", "DATE", -2 * DAY, -2),
    ("TIMESTAMP(3)", "TIME(3)", DAY + SECOND, 1000),
    ("TIMESTAMP(6)", "BIGINT", -1_500_000_000, -1),
    ("TIMESTAMP(6)", "STRING", 123_456_000, "1970-01-01 00:00:00.123456"),
    ("INT", "TIMESTAMP(3)", -60, -60 * SECOND),
]


@pytest.mark.parametrize(("old", "new", "value", "expected"), CASTS)
def test_casts(old: str, new: str, value: Any, expected: Any) -> None:
    before, after = parse_type(old), parse_type(new)
    assert isinstance(before, AtomicType)
    assert isinstance(after, AtomicType)
    array = values_array([value, None], before)
    assert array_values(cast_atomic(array, before, after), after) == [expected, None]


@pytest.mark.parametrize(
    ("old", "new", "value", "error"),
    [
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", 0, UnsupportedError),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING", 0, UnsupportedError),
        ("DATE", "TIMESTAMP(9)", -719162, UnsupportedError),
        ("STRING", "INT", "abc", InvalidInputError),
        ("STRING", "INT", " 12 ", InvalidInputError),
        ("STRING", "INT", "-", InvalidInputError),
        ("STRING", "INT", "", InvalidInputError),
        ("STRING", "TINYINT", "128", InvalidInputError),
        ("STRING", "BIGINT", "9" * 5000, InvalidInputError),
        ("STRING", "BOOLEAN", " 1", InvalidInputError),
        ("STRING", "DOUBLE", "1_000", InvalidInputError),
        ("STRING", "DOUBLE", "0x1p3", UnsupportedError),
        ("STRING", "DECIMAL(5, 1)", " 1", InvalidInputError),
        ("STRING", "DECIMAL(5, 1)", "NaN", InvalidInputError),
        ("STRING", "DATE", "10000-01-01", InvalidInputError),
        ("STRING", "TIME(3)", "24:00:00", UnsupportedError),
        ("STRING", "TIMESTAMP(3)", "1970-01-01 12:34", InvalidInputError),
        ("STRING", "DECIMAL(5, 1)", "abc", InvalidInputError),
        ("DOUBLE", "DECIMAL(5, 1)", float("nan"), InvalidInputError),
        ("BYTES", "STRING", b"\xff", UnsupportedError),
        ("BOOLEAN", "DATE", True, UnsupportedError),
    ],
)
def test_what_cannot_be_cast_is_refused(old: str, new: str, value: Any, error: type[Exception]) -> None:
    before, after = parse_type(old), parse_type(new)
    with pytest.raises(error):
        evolve(values_array([value], before), before, after)


def test_composite_types_do_not_become_atomic() -> None:
    array = parse_type({"type": "ARRAY", "element": "INT"})
    with pytest.raises(UnsupportedError, match="no rule"):
        evolve(values_array([[1]], array), array, parse_type("STRING"))


def test_a_column_that_must_be_there(small_table: Any) -> None:
    table = small_table(table_schema("k INT NOT NULL, v INT", primary_keys=()))
    file = table.write([(1, 2)])
    wider = fields((0, "k", "INT NOT NULL"), (1, "v", "INT"), (2, "w", "INT NOT NULL"))
    table.schema = replace(table.schema, fields=wider)
    with pytest.raises(CorruptDataError, match="column w is missing"):
        table.read(file)


def test_orc_zone_of_the_writer(small_table: Any) -> None:
    table = small_table(table_schema("z TIMESTAMP(3) WITH LOCAL TIME ZONE", primary_keys=()), "orc")
    stored = 1_704_038_400_123 * 1_000_000
    file = table.write([(stored,), (None,)])
    from lakecore.errors import InvalidOptionError
    from lakecore.read.file.file_reader import read_file

    def read(zone: str) -> list[Any]:
        context = replace(table.context, orc_zone=zone)
        batches = list(read_file(context, table.bucket_dir, file))
        return array_values(batches[0].column("z"), table.schema.fields[0].type)

    assert read("UTC") == [stored, None]
    assert read("Asia/Shanghai") == [stored + 8 * 3600 * SECOND, None]
    with pytest.raises(InvalidOptionError, match="Nowhere"):
        read("Nowhere")
