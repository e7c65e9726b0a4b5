"""Conditions of Spark become predicates with the same rows, or none. The rules are those of Spark's SQL."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from lakecore.predicate.evaluate import mask
from lakecore.spark.data_source.filters import predicate_of
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataField, RowType, parse_type


def plain(*parts: int) -> datetime:
    """A time without a zone."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc, arg-type]


COLUMNS = {
    "i": "INT",
    "d": "DECIMAL(5, 2)",
    "b": "BOOLEAN",
    "s": "VARCHAR(20)",
    "x": "BYTES",
    "day": "DATE",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "n": "TIMESTAMP(9)",
    "c": "TIME(3)",
    "f": "DOUBLE",
    "o": "BLOB",
    "l": "ARRAY<INT>",
}
ROW_TYPE = RowType(
    tuple(
        DataField(at, name, parse_type({"type": "ARRAY", "element": "INT"} if name == "l" else kind))
        for at, (name, kind) in enumerate(COLUMNS.items())
    )
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "i": 1,
            "d": Decimal("1.25"),
            "b": True,
            "s": "50% of\na",
            "x": b"\x01",
            "day": date(2024, 2, 29),
            "f": 1.0,
        },
        {"i": 5, "d": Decimal("-7.00"), "b": False, "s": "50x of_a", "x": b"\xff", "day": date(1969, 12, 31)},
        {"t": plain(2024, 1, 1, 0, 0, 0, 5000), "z": datetime(2024, 1, 1, tzinfo=UTC), "l": [1]},
    ],
    schema=pa.schema([pa.field(field.name, field.type) for field in arrow_schema(ROW_TYPE)]),
)


def at(name: str) -> tuple[str]:
    return (name,)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (EqualTo(at("i"), 1), [0]),
        (Not(EqualTo(at("i"), 1)), [1]),
        (EqualNullSafe(at("i"), 1), [0]),
        (EqualNullSafe(at("i"), None), [2]),
        (Not(EqualNullSafe(at("i"), 1)), [1, 2]),
        (Not(EqualNullSafe(at("i"), None)), [0, 1]),
        (GreaterThan(at("i"), 1), [1]),
        (LessThanOrEqual(at("i"), 5), [0, 1]),
        (In(at("i"), (1, None)), [0]),
        (Not(In(at("i"), (1,))), [1]),
        (Not(In(at("i"), (1, None))), []),
        (IsNull(at("i")), [2]),
        (Not(IsNull(at("l"))), [2]),
        (IsNotNull(at("f")), [0]),
        (GreaterThanOrEqual(at("d"), Decimal("1.2500")), [0]),
        (LessThan(at("d"), Decimal("1.251")), [0, 1]),
        (EqualTo(at("b"), True), [0]),
        (Not(EqualTo(at("b"), True)), [1]),
        (StringStartsWith(at("s"), "50%"), [0]),
        (StringEndsWith(at("s"), "_a"), [1]),
        (StringContains(at("s"), "% of\n"), [0]),
        (StringContains(at("s"), "of"), [0, 1]),
        (Not(StringContains(at("s"), "%")), [1]),
        (GreaterThan(at("x"), bytearray(b"\x7f")), [1]),
        (LessThan(at("day"), date(1970, 1, 1)), [1]),
        (EqualTo(at("day"), date(2024, 2, 29)), [0]),
        (EqualTo(at("t"), plain(2024, 1, 1, 0, 0, 0, 5000)), [2]),
        (EqualTo(at("t"), plain(2024, 1, 1, 0, 0, 0, 5001)), []),
        (LessThan(at("t"), plain(2024, 1, 1, 0, 0, 0, 5001)), [2]),
        (EqualTo(at("z"), datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))), [2]),
    ],
    ids=str,
)
def test_the_same_rows(condition: Filter, rows: list[int]) -> None:
    found = predicate_of(condition, ROW_TYPE)
    assert found is not None
    assert [at for at, kept in enumerate(mask(found, ROWS).to_pylist()) if kept] == rows


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(at("f"), 1.0),
        Not(LessThan(at("f"), 1.0)),
        EqualTo(("r", "a"), 1),
        EqualTo(at("missing"), 1),
        EqualTo(at("n"), plain(2024, 1, 1)),
        EqualTo(at("c"), 5),
        IsNull(at("o")),
        EqualTo(at("l"), [1]),
        EqualTo(at("z"), plain(2024, 1, 1)),
        EqualTo(at("day"), plain(2024, 1, 1)),
        EqualTo(at("i"), "1"),
        EqualTo(at("i"), True),
        In(at("s"), ("a", 1)),
        Not(Not(EqualTo(at("i"), 1))),
    ],
    ids=str,
)
def test_what_spark_evaluates(condition: Any) -> None:
    assert predicate_of(condition, ROW_TYPE) is None
