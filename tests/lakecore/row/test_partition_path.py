from __future__ import annotations

from decimal import Decimal

import pytest

from lakecore.errors import InvalidInputError
from lakecore.row.partition_path import DEFAULT_NAME, parse_partitions, partition_path, partition_text
from lakecore.types.datatypes import DataField, RowType, parse_type
from tests.support.typed_values import row_of

KEYS = {
    "dt": "DATE",
    "s": "STRING",
    "ts": "TIMESTAMP(3)",
    "b": "BOOLEAN",
    "de": "DECIMAL(10, 2)",
    "f": "DOUBLE",
}
TYPE = RowType(tuple(DataField(i, name, parse_type(KEYS[name])) for i, name in enumerate(KEYS)))
ROW = (19723, "a b/c=d:%+ü{x}[y]", 1_704_067_200_120_000_000, True, Decimal("1.50"), 1.0)


def test_paths_of_java() -> None:
    # spec: metadata.md 1, a directory that Java made
    text = "s=a b%2Fc%3Dd%3A%25+ü%7Bx%7D%5By%5D"
    legacy = f"dt=19723/{text}/ts=2024-01-01T00%3A00%3A00.120/b=true/de=1.50/f=1.0"
    assert partition_path(ROW, TYPE, DEFAULT_NAME, True) == legacy
    plain = f"dt=2024-01-01/{text}/ts=2024-01-01 00%3A00%3A00.120/b=true/de=1.50/f=1.0"
    assert partition_path(ROW, TYPE, DEFAULT_NAME, False) == plain


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "__NONE__"),
        ("", "__NONE__"),
        (" \t", "__NONE__"),
        ("\u00a0", "\u00a0"),
        ("..", ".."),
        ("\n", "__NONE__"),
        ("a\nb", "a%0Ab"),
    ],
)
def test_blank_values_share_a_directory(value: str | None, name: str) -> None:
    assert partition_path((value,), row_of("STRING"), "__NONE__", True) == f"f0={name}"


def test_whole_minutes_have_no_seconds() -> None:
    kind = row_of("TIMESTAMP(6)")
    assert partition_path((36_000 * 10**9,), kind, DEFAULT_NAME, True) == "f0=1970-01-01T10%3A00"
    assert partition_path((36_001 * 10**9,), kind, DEFAULT_NAME, True) == "f0=1970-01-01T10%3A00%3A01"


def test_parse_partitions() -> None:
    found = parse_partitions("dt=2024-01-01, b=true; s=x=y;de=1.5;s=__DEFAULT_PARTITION__;", TYPE)
    assert found == ({"dt": 19723, "b": True}, {"s": "x=y"}, {"de": Decimal("1.50")}, {"s": None})
    assert partition_text((19723, None), TYPE.select(("dt", "s"))) == "dt=2024-01-01,s=__DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    "text", ["", ";", "dt", "zz=1", "dt=x", "dt=2024-01-01,dt=2024-01-02", "dt=2024-01-01,"]
)
def test_what_is_not_partitions(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_partitions(text, TYPE)


def test_unpartitioned() -> None:
    assert partition_path((), RowType(()), DEFAULT_NAME, True) == ""
    with pytest.raises(InvalidInputError, match="not partitioned"):
        parse_partitions("a=1", RowType(()))
