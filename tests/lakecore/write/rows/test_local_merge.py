"""Merging before rows find their buckets shows in nothing but the number of rows that do."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
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


MANY = ("k INT", "s INT", "n BIGINT", "d DOUBLE", "t STRING", "a ARRAY<INT>", "m MAP<INT, INT>", "b BOOLEAN")
FOLDED: dict[str, dict[str, Any]] = {
    "first-row": {"merge_engine": "first-row", "write_only": "false", "num-sorted-run__compaction-trigger": "1"},
    "partial-update": {"merge_engine": "partial-update"},
    "partial-removed": {"merge_engine": "partial-update", "partial-update__remove-record-on-delete": "true"},
    "sequence-groups": {
        "merge_engine": "partial-update", "fields__s__sequence-group": "n,t,a", "fields__n__aggregate-function": "sum",
    },
    "last": {"merge_engine": "aggregation"},
    "in-order": {
        "merge_engine": "aggregation", "fields__s__aggregate-function": "first_value",
        "fields__n__aggregate-function": "product", "fields__d__aggregate-function": "last_value",
        "fields__t__aggregate-function": "listagg", "fields__a__aggregate-function": "collect",
        "fields__m__aggregate-function": "merge_map", "fields__b__aggregate-function": "first_non_null_value",
    },
    "any-order": {
        "merge_engine": "aggregation", "sequence__field": "s", "fields__n__aggregate-function": "sum",
        "fields__d__aggregate-function": "max", "fields__t__aggregate-function": "last_value",
        "fields__a__aggregate-function": "last_value", "fields__m__aggregate-function": "last_value",
        "fields__b__aggregate-function": "bool_or",
    },
    "distinct": {
        "merge_engine": "aggregation", "fields__t__aggregate-function": "listagg", "fields__t__distinct": "true",
        "fields__a__aggregate-function": "collect", "fields__a__distinct": "true",
    },
    "retracted": {
        "merge_engine": "aggregation", "fields__s__aggregate-function": "sum", "fields__n__aggregate-function": "sum",
        "fields__default-aggregate-function": "last_non_null_value",
        **{f"fields__{name}__ignore-retract": "true" for name in "dtamb"},
    },
}  # fmt: skip
RETRACTS = ("partial-removed", "retracted")


def more_rows(dice: random.Random, count: int, kinds: list[str]) -> list[dict[str, Any]]:
    def some(value: Any) -> Any:
        return None if dice.random() < 0.3 else value

    return [
        {
            "k": dice.randrange(9), "s": some(dice.randrange(4)), "n": some(dice.randrange(1, 3)),
            "d": some(float(i)), "t": some(dice.choice(["", "x", "y;z", str(i)])),
            "a": some([dice.randrange(3) for _ in range(dice.randrange(3))]),
            "m": some({dice.randrange(3): i}), "b": some(dice.random() < 0.5), "_kind": dice.choice(kinds),
        }
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_engines_fold_in_parts(name: str) -> None:
    """Buffers of 60, 7 and 2 rows, and none: the rows of the table are the same."""
    kinds = ["+I", "+U", "-U", "-D"] if name in RETRACTS else ["+I", "+U"]
    found = []
    for rows, local in ((60, None), (60, "1 mb"), (7, "1 b"), (2, "1 b")):
        options = {"local_merge_buffer_size": local} if local else {}
        table = key_table(memory_catalog(f"local-{rows}"), MANY, **FOLDED[name], **options)
        dice = random.Random(name)
        for _ in range(2):
            commit = more_rows(dice, 60, kinds)
            write = table.new_batch_write()
            schema = pa.schema([*table.scan().to_arrow().schema, pa.field("_kind", pa.string())])
            for batch in pa.Table.from_pylist(commit, schema).to_batches(max_chunksize=rows):
                write.write(batch)
            write.commit([write.prepare_commit()])
        found.append(rows_of(table))
    assert len(found[0]) > 4
    assert found[1:] == [found[0]] * 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"changelog_producer": "input"}, "stores every row"),
        ({"merge_engine": "aggregation", "fields__v__aggregate-function": "nested_update"}, "function nested_update"),
        ({"merge_engine": "aggregation", "sequence__field": "s"}, "with the rows of a sequence field"),
        ({"merge_engine": "partial-update", "sequence__field": "s"}, "use sequence groups"),
        ({"merge_engine": "aggregation", "rowkind__field": "w"}, "rowkind.field=w"),
    ],
    ids=["changelog", "function", "order", "partial", "kinds"],
)  # fmt: skip
def test_where_it_would_show_nothing_is_merged(
    options: dict[str, str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = ("k INT", "s INT", "v ARRAY<ROW<a INT>>", "w STRING")
    table = key_table(memory_catalog("local-off"), columns, local_merge_buffer_size="1 mb", **options)
    assert table._session(table._with_user(None)).new_write(None, None)._local is None
    assert "option local-merge-buffer-size has no effect: " in caplog.text
    assert reason in caplog.text
