"""Reading splits against plain Python: merges, projections, filters, retracting rows."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import NotFoundError
from lakecore.predicate.parse import parse_where
from lakecore.read.file.sizes import ReadSizes, sizes_for
from lakecore.read.split import split_reader
from lakecore.read.split.split_reader import ReadRequest, read_split
from tests.support.builders import table_schema

ADD, UB, UA, D = range(4)
COLUMNS = "k INT NOT NULL, v STRING, s INT"


def where(table: Any, text: str) -> Any:
    return parse_where(text, table.schema.row_type)


def test_append_files_come_in_order_filtered_and_projected(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS, primary_keys=()))
    one = table.write([(1, "a", 1), (2, "b", None)])
    two = table.write([(3, "a", 3)])
    assert table.read(one, two) == [(1, "a", 1), (2, "b", None), (3, "a", 3)]
    assert table.read(one, two, columns=["s", "k"], where=where(table, "v = 'a'")) == [(1, 1), (3, 3)]
    assert table.read(one, two, columns=["k"], where=where(table, "s is null")) == [(2,)]


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("thin", [False, True])
def test_the_newest_row_of_a_key_wins(small_table: Any, kind: str, thin: bool) -> None:
    table = small_table(table_schema(COLUMNS), kind)
    old = table.write(
        [(1, 0, ADD, 1, "a", 0), (2, 1, ADD, 2, "b", 0), (3, 2, ADD, 3, "c", 0)], level=5, thin=thin
    )
    new = table.write([(2, 4, UA, 2, "B", 0), (3, 5, D, 3, "c", 0), (4, 3, ADD, 4, "d", 0)], thin=thin)
    assert table.read(new, old) == [(1, "a", 0), (2, "B", 0), (4, "d", 0)]
    assert table.read(old, new, columns=["v"]) == [("a",), ("B",), ("d",)]


@pytest.mark.parametrize("levels", [(0, 1), (1, 0), (2, 0)])
def test_a_run_of_files_of_several_levels_is_told_file_by_file(
    small_table: Any, levels: tuple[int, int]
) -> None:
    """A row above level 0 stands for those below it, one of level 0 does not: here both are in one run."""
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = small_table(table_schema(COLUMNS, options=options))
    base = table.write([(k, k, ADD, k, f"old {k}", k) for k in (1, 2, 3)], level=5)
    one = table.write([(1, 10, ADD, 1, None, 11)], level=levels[0])
    three = table.write([(3, 11, ADD, 3, None, 33)], level=levels[1])
    found = {1: "old 1" if levels[0] == 0 else None, 3: "old 3" if levels[1] == 0 else None}
    assert table.read(base, one, three) == [(1, found[1], 11), (2, "old 2", 2), (3, found[3], 33)]


def test_a_delete_that_stands_for_the_rows_below_is_folded(small_table: Any) -> None:
    """Java's aggregation takes a value back from nothing, and a row without values is left; so it is with one
    row that is left of several. A delete that is the only row of its key leaves nothing.
    """
    options = {"merge-engine": "aggregation", "fields.s.aggregate-function": "sum", "force-lookup": "true"}
    table = small_table(table_schema(COLUMNS, options=options))
    base = table.write([(1, 0, ADD, 1, "a", 5), (2, 1, ADD, 2, "b", 6)], level=5)
    gone = table.write([(1, 2, D, 1, "a", 3), (3, 3, D, 3, "c", 4)], level=4)
    assert table.read(base, gone) == [(1, None, -3), (2, "b", 6)]


def test_sequence_fields_override_the_sequence_number(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS, options={"sequence.field": "s"}))
    first = table.write([(1, 0, ADD, 1, "late", 9), (2, 1, ADD, 2, "x", None), (3, 2, ADD, 3, "tie", 5)])
    second = table.write([(1, 3, ADD, 1, "early", 3), (2, 4, ADD, 2, "y", 0), (3, 5, ADD, 3, "tie wins", 5)])
    assert table.read(first, second, columns=["v"]) == [("late",), ("y",), ("tie wins",)]
    table = small_table(
        table_schema(COLUMNS, options={"sequence.field": "s", "sequence.field.sort-order": "descending"})
    )
    first = table.write([(1, 0, ADD, 1, "late", 9), (2, 1, ADD, 2, "x", None)])
    second = table.write([(1, 3, ADD, 1, "early", 3), (2, 4, ADD, 2, "y", 0)])
    assert table.read(first, second, columns=["v"]) == [("early",), ("y",)]


def test_a_condition_on_values_waits_for_the_merge(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS))
    old = table.write([(1, 0, ADD, 1, "a", 0), (2, 1, ADD, 2, "a", 0)])
    new = table.write([(1, 2, UA, 1, "b", 0)])
    assert table.read(old, new, where=where(table, "v = 'a'")) == [(2, "a", 0)]
    assert table.read(old, new, where=where(table, "v = 'b' and k <= 1")) == [(1, "b", 0)]
    assert table.read(old, new, where=where(table, "v = 'a' or k = 1")) == [(1, "b", 0), (2, "a", 0)]


def test_deleted_keys_stay_deleted_under_a_key_condition(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS))
    old = table.write([(1, 0, ADD, 1, "a", 0), (2, 1, ADD, 2, "a", 0)])
    new = table.write([(2, 2, D, 2, "a", 0)])
    assert table.read(old, new, where=where(table, "k >= 2")) == []


def test_ignore_delete(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS, options={"ignore-delete": "true"}))
    old = table.write([(1, 0, ADD, 1, "a", 0), (2, 1, ADD, 2, "b", 0)])
    new = table.write([(1, 2, D, 1, "a", 0), (3, 3, D, 3, "c", 0)])
    assert table.read(old, new) == [(1, "a", 0), (2, "b", 0)]


def test_files_without_a_partner_drop_their_retracting_rows(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS))
    alone = table.write([(1, 0, UB, 1, "a", 0), (2, 1, ADD, 2, "b", 0)])
    other = table.write([(7, 2, UA, 7, "g", 0), (8, 3, D, 8, "h", 0)])
    assert table.read(alone, other) == [(2, "b", 0), (7, "g", 0)]
    assert table.read(alone, raw=True) == [(2, "b", 0)]


def test_several_files_in_a_run_and_two_key_columns(small_table: Any) -> None:
    table = small_table(table_schema("a INT, v STRING, b STRING NOT NULL", primary_keys=("b", "a")))
    low = table.write([("x", 1, 0, ADD, 1, "x1", "x"), ("x", 5, 1, ADD, 5, "x5", "x")], level=4)
    high = table.write([("y", 0, 2, ADD, 0, "y0", "y"), ("y", 2, 3, ADD, 2, "y2", "y")], level=4)
    new = table.write([("x", 5, 7, UA, 5, "X5", "x"), ("y", 0, 8, D, 0, None, "y")])
    assert table.read(low, high, new) == [(1, "x1", "x"), (5, "X5", "x"), (2, "y2", "y")]
    assert table.read(low, high, new, where=where(table, "b = 'y'")) == [(2, "y2", "y")]


def test_row_groups_that_cannot_match_are_not_read(small_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    from lakecore.read.file import file_reader

    inner = file_reader.matching_row_groups
    monkeypatch.setattr(file_reader, "matching_row_groups", lambda *a: seen.append(inner(*a)) or seen[-1])
    table = small_table(table_schema(COLUMNS, primary_keys=()), block_size=1000)
    file = table.write([(i, f"v{i:04d}", i % 2) for i in range(600)], chunk=100)
    assert table.read(file, where=where(table, "k = 250"), columns=["v"]) == [("v0250",)]
    assert table.read(file, where=where(table, "v > 'v0597' and s = 1")) == [(599, "v0599", 1)]
    assert table.read(file, where=where(table, "k < 0")) == []
    assert len(table.read(file, where=where(table, "s = 1 or k = 0"))) == 301
    assert seen == [[2], [5], [], list(range(6))]


def test_a_file_that_is_gone(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS))
    file = table.write([(1, 0, ADD, 1, "a", 0)])
    table.file_io.delete(f"{table.bucket_dir}/{file.file_name}")
    with pytest.raises(NotFoundError, match=r"data-0\.parquet does not exist: .* expired"):
        table.read(file)


def test_an_engine_folds_whole_runs_however_many(small_table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.read.split.split_reader.run_limit", lambda columns, width: 3)
    options = {"merge-engine": "aggregation", "fields.s.aggregate-function": "sum"}
    table = small_table(table_schema(COLUMNS, options=options))
    files = [
        table.write([(0, 2 * n, ADD, 0, "z", 1), (1, 2 * n + 1, n % 2 * D, 1, "a", n)]) for n in range(9)
    ]
    assert table.read(*files) == [(0, "z", 9), (1, "a", 4)]
    assert table.read(*files, columns=["s"], where=where(table, "k = 1")) == [(4,)]


def test_sequence_columns_are_read_where_they_decide(small_table: Any) -> None:
    options = {"merge-engine": "partial-update", "fields.s.sequence-group": "v"}
    table = small_table(table_schema(COLUMNS, options=options))
    files = [table.write([(1, n, ADD, 1, text, s)]) for n, (text, s) in enumerate([("new", 2), ("old", 1)])]
    assert table.read(*files, columns=["v"]) == [("new",)]


def test_sizes_share_a_budget() -> None:
    assert sizes_for(2, 10, 50) == ReadSizes(32768, 1 << 20)
    many = sizes_for(50, 12, 1000)
    assert many.batch_rows * 50 * 1000 <= 128 << 20
    assert many.buffer_size * 50 * 12 <= 64 << 20
    assert sizes_for(10_000, 10_000, 10**6) == ReadSizes(16, 64 << 10)


@pytest.mark.parametrize("ignore_delete", ["true", "false"])
def test_more_runs_than_may_be_open(
    small_table: Any, ignore_delete: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Merged three at a time: the same rows; nothing is left on disk, also where the reader leaves early."""
    monkeypatch.setattr(split_reader, "run_limit", lambda columns, width: 3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = small_table(table_schema(COLUMNS, options={"ignore-delete": ignore_delete}))
    dice = random.Random(5)
    files, newest = [], {}
    for number in range(11):
        rows = []
        for key in sorted(dice.sample(range(40), 20)):
            kind = dice.choice([ADD, UA, D])
            rows.append((key, 100 * number + key, kind, key, f"{number}", number))
            if kind != D:
                newest[key] = f"{number}"
            elif ignore_delete == "false":
                newest.pop(key, None)
        files.append(table.write(rows))
    dice.shuffle(files)
    assert table.read(*files, columns=["k", "v"]) == sorted(newest.items())
    assert list(tmp_path.iterdir()) == []

    started = read_split(table.context, table.split(*files))
    assert next(started).num_rows
    assert list(tmp_path.iterdir()) != []
    started.close()
    assert list(tmp_path.iterdir()) == []


def test_rows_of_a_batch_by_their_width(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS, primary_keys=()))
    file = table.write([(i, str(i) * 500_000, i) for i in range(10, 110)])
    sizes = [b.num_rows for b in read_split(table.context, table.split(file))]
    assert sum(sizes) == 100
    assert 10 < max(sizes) < 60
    assert [b.num_rows for b in read_split(table.context, table.split(file), ReadRequest(["k"]))] == [100]


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[int, int, int]]]:
    """Files of (key, sequence, kind), keys increasing; sequence numbers never repeat.

    They lie in any order, or, as writers leave them, each file has higher ones than those before.
    """
    numbers = range(60)
    sequence = iter(numbers if draw(st.booleans()) else draw(st.permutations(numbers)))
    kinds = st.just(ADD) if draw(st.booleans()) else st.sampled_from([ADD, ADD, UA, UB, D])
    files = []
    for _ in range(draw(st.integers(1, 7))):
        keys = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=6)))
        files.append([(key, next(sequence), draw(kinds)) for key in keys])
    return files


@settings(max_examples=80)
@given(histories())
def test_any_files_read_as_a_dict_would(files: list[list[tuple[int, int, int]]]) -> None:
    from lakecore.format.data_writer import WriterOptions
    from lakecore.fs.memory import MemoryFileIO
    from tests.lakecore.read.conftest import SmallTable

    file_io = MemoryFileIO("read")
    file_io.clear()
    table = SmallTable(table_schema(COLUMNS), file_io, "parquet", WriterOptions())
    written = [table.write([(k, seq, kind, k, f"{k}@{seq}", 0) for k, seq, kind in rows]) for rows in files]
    newest: dict[int, tuple[int, int]] = {}
    for rows in files:
        for key, sequence, kind in rows:
            newest[key] = max(newest.get(key, (-1, 0)), (sequence, kind))
    expected = [f"{key}@{seq}" for key, (seq, kind) in sorted(newest.items()) if kind in (ADD, UA)]
    assert [row[0] for row in table.read(*written, columns=["v"])] == expected


def test_shares_of_a_merge_are_its_rows_without_the_deleted_ones(small_table: Any) -> None:
    table = small_table(table_schema(COLUMNS), block_size=2000)
    old = table.write([(k, k, ADD, k, f"old {k}", k) for k in range(3000)], level=5, chunk=100)
    new = table.write([(k, k + 3000, ADD, k, "new", k) for k in range(0, 3000, 2)], chunk=100)
    deleted = {old.file_name: range(1, 3000, 10), new.file_name: range(0, 1500, 7)}
    split = table.split(old, new, deleted=deleted)
    whole = [batch.to_pylist() for batch in read_split(table.context, split)]
    shares = split_reader.split_shares(table.context, split, 4)
    assert len(shares) == 4
    parts = [[row for batch in share() for row in batch.to_pylist()] for share in shares]
    assert all(parts)
    assert [row for part in parts for row in part] == [row for rows in whole for row in rows]


@pytest.mark.parametrize("reverse", [False, True])
def test_of_rows_with_one_number_that_of_the_lowest_level_wins(small_table: Any, reverse: bool) -> None:
    """Two writers that did not see each other give rows the same numbers."""
    table = small_table(table_schema(COLUMNS))
    files = [
        table.write(
            [(1, 7, ADD, 1, f"level {level}", 0), (2, 8 + level, ADD, 2, f"level {level}", 0)], level=level
        )
        for level in (5, 3, 0)
    ]
    found = table.read(*(reversed(files) if reverse else files), columns=["k", "v"])
    assert found == [(1, "level 0"), (2, "level 5")]
