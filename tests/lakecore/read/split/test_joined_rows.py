"""Columns of the same rows in several files: the newest file that has a column gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.predicate.parse import parse_where
from lakecore.read.split.split_reader import ReadRequest, read_split
from lakecore.scan.plan import SplitPolicy
from lakecore.scan.row_ranges import plan_row_ranges
from tests.support.builders import data_file, manifest_entry, table_schema

OPTIONS = {"data-evolution.enabled": "true", "row-tracking.enabled": "true", "bucket": "-1"}
WHOLE = table_schema("k BIGINT NOT NULL, v STRING, s INT", primary_keys=(), options=OPTIONS)
COUNT = 500


def share(table: Any, columns: tuple[str, ...], rows: list[Any], first: int, age: int) -> DataFile:
    """A file with some columns of `len(rows)` rows from `first` on, in the storage of `table`."""
    part = replace(WHOLE, fields=tuple(field for field in WHOLE.fields if field.name in columns))
    other = replace(table, schema=part, count=age)
    file = other.write(rows, chunk=100 + 30 * age)
    return replace(file, first_row_id=first, max_sequence_number=age, write_cols=columns)


@pytest.fixture
def table(small_table: Any) -> tuple[Any, list[DataFile]]:
    made = small_table(WHOLE, block_size=1000)
    files = [
        share(made, ("k", "v"), [(k, f"old{k}") for k in range(COUNT)], 0, 1),
        share(made, ("v",), [(f"new{k}",) for k in range(COUNT)], 0, 2),
        share(made, ("k", "v", "s"), [(1000 + k, "w", k) for k in range(5)], COUNT, 3),
    ]
    return made, files


def read(
    table: Any, files: list[DataFile], columns: list[str], where: str | None = None, **more: Any
) -> list[Any]:
    predicate = parse_where(where, WHOLE.row_type) if where else None
    split = table.split(*files, **more)
    return [
        tuple(row.values())
        for batch in read_split(table.context, split, ReadRequest(columns, predicate))
        for row in batch.to_pylist()
    ]


def test_the_newest_file_with_a_column_gives_it(table: tuple[Any, list[DataFile]]) -> None:
    small, files = table
    expected = [(k, f"new{k}", None) for k in range(COUNT)] + [(1000 + k, "w", k) for k in range(5)]
    assert read(small, files[::-1], ["k", "v", "s"]) == expected
    assert read(small, files, ["s"]) == [(row[2],) for row in expected]
    assert read(small, files, ["v", "_ROW_ID"], "k = 7 or s = 2") == [("new7", 7), ("w", COUNT + 2)]
    ids = read(small, files, ["_ROW_ID", "_SEQUENCE_NUMBER"])
    assert ids == [(n, 2 if n < COUNT else 3) for n in range(COUNT + 5)]


def test_a_row_deleted_in_one_file_is_deleted(table: tuple[Any, list[DataFile]]) -> None:
    small, files = table
    rows = read(
        small, files, ["k", "v"], deleted={files[0].file_name: [0, 130, 499], files[2].file_name: [4]}
    )
    gone = {0, 130, 499, 1004}
    expected = [(k, f"new{k}") for k in range(COUNT)] + [(1000 + k, "w") for k in range(5)]
    assert rows == [row for row in expected if row[0] not in gone]


def test_damage_is_noticed(table: tuple[Any, list[DataFile]]) -> None:
    small, files = table
    short = share(small, ("s",), [(k,) for k in range(COUNT - 1)], 0, 4)
    with pytest.raises(CorruptDataError, match="holds 499 rows"):
        read(small, [*files, short], ["k", "s"])
    lying = replace(short, row_count=COUNT)
    with pytest.raises(CorruptDataError, match="differ in the number of rows"):
        read(small, [*files, lying], ["k", "s"])
    with pytest.raises(CorruptDataError, match=r"499 rows, but .* leave 500"):
        read(small, [*files, lying], ["s"])
    with pytest.raises(CorruptDataError, match="has column k, which is NOT NULL"):
        read(small, files[1:2], ["k"])


def test_files_of_the_same_rows_stay_together() -> None:
    def entry(name: str, first: int | None, rows: int, size: int = 10, bucket: int = 0) -> Any:
        return manifest_entry(
            replace(data_file(name, rows=rows, size=size), first_row_id=first), bucket=bucket
        )

    def plan(*entries: Any) -> list[list[str]]:
        found = plan_row_ranges(ManifestEntries.from_rows(entries), SplitPolicy(50, 1), "db.t")
        return [sorted(file.file_name for file in split.files) for split in found]

    parts = (
        entry("c", 20, 5, 40),
        entry("a", 0, 10),
        entry("b", 10, 10),
        entry("a2", 0, 10, 45),
        entry("d", 0, 3, 1, 1),
    )
    assert plan(*parts) == [["a", "a2"], ["b", "c"], ["d"]]
    assert plan() == []
    for wrong, problem in (
        (entry("x", 5, 10), "overlap other files in a part of their rows"),
        (entry("x", 0, 9), "overlap other files in a part of their rows"),
        (entry("x", None, 9), "have no row ids"),
    ):
        with pytest.raises(UnsupportedError, match=problem):
            plan(entry("a", 0, 10), wrong)
