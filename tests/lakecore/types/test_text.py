from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import InvalidInputError
from lakecore.types.datatypes import parse_type
from lakecore.types.text import (
    date_text,
    parse_date,
    parse_timestamp,
    parse_value,
    timestamp_text,
    value_text,
)


@given(st.integers(-719_162, 2_932_896))
def test_dates_agree_with_numpy(days: int) -> None:
    assert date_text(days) == str(np.datetime64(days, "D"))
    assert parse_date(date_text(days)) == days


@given(st.integers(-(10**19), 10**19))
def test_timestamps_come_back(nanos: int) -> None:
    text = timestamp_text(nanos, 9)
    if text[0].isdigit():
        assert parse_timestamp(text) == nanos


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "TINYINT", 7), (" 7 ", "INT", 7), ("TRUE", "BOOLEAN", True), ("2024-01-01", "DATE", 19723),
        ("19723", "DATE", 19723), ("10:00:00.5", "TIME(3)", 36_000_500), ("1.5", "DECIMAL(10, 2)", Decimal("1.50")),
        ("1e2", "DECIMAL(10, 2)", Decimal("100.00")), ("0x01ff", "BYTES", b"\1\xff"), ("ab", "BYTES", b"ab"),
        ("2024-01-01T10:00", "TIMESTAMP(3)", 1_704_103_200 * 10**9),
        ("2024-01-01 10:00:00+02:00", "TIMESTAMP(3) WITH LOCAL TIME ZONE", 1_704_096_000 * 10**9),
        ("9" * 38, "DECIMAL(38, 0)", Decimal("9" * 38)),
    ],
)  # fmt: skip
def test_parse_value(text: str, kind: str, value: object) -> None:
    assert parse_value(text, parse_type(kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", "INT"), ("128", "TINYINT"), ("1_0", "INT"), ("yes", "BOOLEAN"), ("2024-02-30", "DATE"), ("25:00", "TIME(0)"),
        ("1.555", "DECIMAL(10, 2)"), ("nan", "DECIMAL(10, 2)"), ("123456789.00", "DECIMAL(10, 2)"), ("", "DOUBLE"),
        ("0xzz", "BYTES"), ("2024-01-01 24:00", "TIMESTAMP(3)"),
    ],
)  # fmt: skip
def test_parse_value_names_text_and_type(text: str, kind: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_value(text, parse_type(kind))
    assert repr(text) in str(caught.value)
    assert kind in str(caught.value)


def test_value_text_pads_to_the_precision() -> None:
    assert value_text(120_000_000, parse_type("TIMESTAMP(3)")) == "1970-01-01 00:00:00.120"
    assert value_text(0, parse_type("TIMESTAMP(0)")) == "1970-01-01 00:00:00"
    assert value_text(Decimal("1E-10"), parse_type("DECIMAL(20, 10)")) == "0.0000000001"


def test_dates_of_every_day_that_a_date_can_hold() -> None:
    for day in (-(2**31), -719529, 0, 364_522_972, 2**31 - 1):
        assert parse_date(date_text(day)) == day
    with pytest.raises(ValueError, match="range"):
        parse_date("+9999999-01-01")
