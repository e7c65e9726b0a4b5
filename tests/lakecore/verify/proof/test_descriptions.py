"""What new files say of themselves beyond their bytes: level, schema, origin, numbers and ids of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.verify.proof.descriptions import PickFiles, check_joined_rows, check_new_files
from lakecore.verify.rules.table_rules import TableRules
from tests.lakecore.verify.rules.test_drop_licence import file

KEYED = TableRules.of({}, keyed=True)
SORTED = TableRules.of({"pk-clustering-override": "true", "clustering.columns": "v"}, keyed=True)
BUCKETS = TableRules.of({"bucket": "2"}, keyed=False)
FREE = TableRules.of({"bucket": "-1"}, keyed=False)


def made(name: str, level: int = 5, numbers: tuple[int, int] = (0, 9), **other: Any) -> DataFile:
    rows = numbers[1] - numbers[0] + 1
    found = replace(file(name, level, "az", numbers), file_source=FileSource.COMPACT, row_count=rows)
    return replace(found, **{"schema_id": 3, **other})


def check(
    new: DataFile,
    rules: TableRules = KEYED,
    changelog_files: tuple[DataFile, ...] = (),
    read: tuple[DataFile, ...] = (),
) -> None:
    files = PickFiles(read or (new,), (new,), changelog_files)
    check_new_files("bucket-0", files, {5} if rules is KEYED else (), 3, rules)


def test_right_ones_pass() -> None:
    change = made("told", file_source=FileSource.APPEND)
    check(made("new"), changelog_files=(change,))
    check(made("new", 1), SORTED)
    check(made("new", 0, (20, 29)), BUCKETS, read=(made("old", 0, (20, 25)), made("other", 0, (26, 40))))
    check(made("new", 0, (0, 9)), FREE, read=(made("old", 0, (20, 25)), made("other", 0, (20, 40))))


@pytest.mark.parametrize(
    ("new", "rules", "says"),
    [
        (made("new", 0), KEYED, "level 0"),
        (made("new", 4), KEYED, "level 4"),
        (made("new", schema_id=2), KEYED, "schema 2"),
        (made("new", file_source=FileSource.APPEND), KEYED, "does not say"),
        (made("new", file_source=None), FREE, "does not say"),
        (made("new", 0), SORTED, "not in the order of keys"),
        (made("new", 0, (0, 9)), BUCKETS, "begins with sequence number 0"),
        (made("new", 0, (20, 41)), BUCKETS, "ends behind"),
        (made("new", 0, (20, 29), row_count=3), BUCKETS, "other sequence numbers than rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_ones_are_refused(new: DataFile, rules: TableRules, says: str) -> None:
    with pytest.raises(ProofError, match=says):
        check(new, rules, read=(made("old", 0, (20, 25)), made("other", 0, (26, 40))))


def test_new_files_of_an_ordered_bucket_follow_one_another() -> None:
    first, second = made("first", 0, (20, 24)), made("second", 0, (24, 29))
    with pytest.raises(ProofError, match="second does not come after first"):
        check_new_files(
            "bucket-0", PickFiles((made("old", 0, (20, 40)),), (first, second), ()), (), 3, BUCKETS
        )


def test_a_changelog_is_not_compacted() -> None:
    with pytest.raises(ProofError, match="is a changelog"):
        check(made("new"), changelog_files=(made("told"),))


LEFT = made("left", 0, (3, 3), first_row_id=10, row_count=5)
RIGHT = made("right", 0, (7, 8), first_row_id=15, row_count=5)


@pytest.mark.parametrize(
    "other",
    [
        {"first_row_id": 0},
        {"first_row_id": None},
        {"row_count": 9},
        {"max_sequence_number": 3},
        {"min_sequence_number": 8},
    ],
    ids=["first id", "no id", "rows", "newest", "oldest"],
)
def test_joined_rows_keep_ids_and_numbers(other: dict[str, Any]) -> None:
    new = made("new", 0, (3, 8), first_row_id=10, row_count=10)
    check_joined_rows("unit", (LEFT, RIGHT), (new,))
    with pytest.raises(ProofError, match="new"):
        check_joined_rows("unit", (LEFT, RIGHT), (replace(new, **other),))
