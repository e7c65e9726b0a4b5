"""Values of partition columns are refused where pyarrow would take them for another value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import InvalidInputError
from lakecore.row.partition_values import partition_value
from lakecore.types.datatypes import DataField, RowType, parse_type


def _converted(value: Any, type_: str) -> Any:
    return partition_value("p", value, RowType((DataField(0, "p", parse_type(type_)),)))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1.5, "DATE"),
        (19_723, "DATE"),
        (datetime(2024, 1, 1, 5, tzinfo=UTC), "DATE"),
        (7, "TIME(3)"),
        (7, "TIMESTAMP(6)"),
        (1.5, "INT"),
        (True, "INT"),
        (1, "BOOLEAN"),
        (5, "STRING"),
        ("2024-01-01", "DATE"),
    ],
)
def test_another_value_is_refused(value: Any, type_: str) -> None:
    with pytest.raises(InvalidInputError, match=r"partition p=.*: not a value of type"):
        _converted(value, type_)


def test_equal_values_are_accepted() -> None:
    assert (
        _converted(date(2024, 1, 1), "DATE") == _converted(datetime(2024, 1, 1, tzinfo=UTC), "DATE") == 19_723
    )
    assert (_converted(1.0, "INT"), _converted("a", "STRING"), _converted(None, "DATE")) == (1, "a", None)


def test_a_lookup_refuses_what_is_no_value_of_the_key(tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(str(tmp_path))
    table = catalog.create_table(
        "d.t", {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["one"]}))
    with table.new_query() as query, table.new_lookup(["k"]) as lookup:
        query.refresh()
        assert query.lookup((), 0, (1,)) == {"k": 1, "v": "one"}
        for find in (lambda: query.lookup((), 0, (1.5,)), lambda: lookup.lookup_key(1.5)):
            with pytest.raises(InvalidInputError, match="key"):
                find()
