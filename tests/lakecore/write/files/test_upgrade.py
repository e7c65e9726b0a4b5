"""Files of an overwrite on the highest level."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.write.files.upgrade import highest_level, upgrade_levels
from tests.support.builders import commit_message, data_file, table_schema

KEYED = table_schema()


@pytest.mark.parametrize(
    ("options", "level"),
    [({}, 5), ({"num-sorted-run.compaction-trigger": "3"}, 3), ({"num-levels": "4"}, 3)],
)
def test_highest_level(options: dict[str, str], level: int) -> None:
    assert highest_level(table_schema(options=options)) == level


def test_disjoint_files_move_up() -> None:
    messages = [
        commit_message(data_file("b", keys=(10, 19)), data_file("a", keys=(0, 9))),
        commit_message(data_file("c", keys=(0, 9)), bucket=1),
    ]
    moved = upgrade_levels(messages, KEYED)

    assert [[file.level for file in message.new_files] for message in moved] == [[5, 5], [5]]
    assert [message.bucket for message in moved] == [0, 1]


def test_one_overlap_keeps_all_down() -> None:
    messages = [
        commit_message(data_file("a", keys=(0, 10)), data_file("b", keys=(10, 19))),
        commit_message(data_file("c", keys=(0, 9)), bucket=1),
    ]
    assert upgrade_levels(messages, KEYED) == tuple(messages)


def test_retracting_rows_keep_all_down() -> None:
    messages = [commit_message(replace(data_file("a", keys=(0, 10)), delete_row_count=1))]
    assert upgrade_levels(messages, KEYED) == tuple(messages)


def test_append_tables_have_no_levels() -> None:
    messages = [commit_message(data_file("a"))]
    assert upgrade_levels(messages, table_schema(primary_keys=())) == tuple(messages)
