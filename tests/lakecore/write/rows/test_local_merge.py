"""Merging before rows find their buckets shows in nothing but the number of rows that do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakecore.write.table_write import TableWrite
from tests.support.lake import key_table, live_files, memory_catalog, put, rows_of

COLUMNS = ("k INT", "s INT", "v STRING")


def some_rows(dice: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "k": dice.randrange(9),
            "s": dice.randrange(4),
            "v": str(i),
            "_kind": dice.choice(["+I", "+U", "-D"]),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("options", [{}, {"sequence__field": "s"}, {"bucket": "-1"}, {"bucket": "3"}])
@pytest.mark.parametrize("size", ["1 b", "1 kb", "1 mb"])
def test_the_rows_are_the_same(size: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    honest = TableWrite.write_rows
    monkeypatch.setattr(
        TableWrite, "write_rows", lambda w, rows: (counted.append(rows.batch.num_rows), honest(w, rows))
    )
    found = []
    for name, local in (("plain", {}), ("merged", {"local_merge_buffer_size": size})):
        table = key_table(memory_catalog(f"local-{name}"), COLUMNS, **options, **local)
        dice = random.Random(size)
        counted.clear()
        put(table, *(some_rows(dice, 60) for _ in range(4)))
        found.append(
            (rows_of(table), sum(counted), [(f.row_count, f.delete_row_count) for f in live_files(table)])
        )
    (plain, every, files), (merged, fewer, merged_files) = found
    assert merged == plain
    assert merged_files == files
    assert every == 240
    assert fewer <= 4 * 9


@pytest.mark.parametrize(
    "options",
    [{"changelog_producer": "input"}, {"merge_engine": "aggregation"}, {"merge_engine": "partial-update"}],
)
def test_where_it_would_show_nothing_is_merged(options: dict[str, str]) -> None:
    table = key_table(memory_catalog("local-off"), COLUMNS, local_merge_buffer_size="1 mb", **options)
    assert table._session(table._with_user(None)).new_write(None, None)._local is None
