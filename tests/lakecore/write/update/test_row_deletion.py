"""Deleting rows by a condition: what is left, what the snapshots say, and what happens beside other commits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, InvalidInputError, UnsupportedError
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Commit, Table
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, memory_catalog, put

MARKED = {"deletion_vectors__enabled": "true"}


def values(table: Table) -> list[Any]:
    return sorted(row["v"] for row in table.scan().to_arrow().to_pylist())


def numbers(table: Table, *ranges: range) -> None:
    for each in ranges:
        table.append(pa.table({"v": pa.array(each, pa.int32()), "p": [f"p{v % 3}" for v in each]}))


def compact(catalog: FilesystemCatalog, table: Table, strategy: Strategy = Strategy.FULL) -> Any:
    return run(Job(table=table.name, strategy=strategy), catalog)


@pytest.mark.parametrize(
    "options", [{}, {"bucket": "2", "bucket_key": "v"}, {"deletion_vectors__bitmap64": "true"}]
)
@pytest.mark.parametrize("partitions", [(), ("p",)])
def test_rows_go_and_stay_gone(options: dict[str, str], partitions: tuple[str, ...]) -> None:
    catalog = memory_catalog()
    table = append_table(catalog, partitions=partitions, **MARKED, **options)
    numbers(table, range(10), range(10, 20))
    assert table.delete("v in (3, 4, 13)").rows == 3
    assert table.delete("v = 4 or v = 5 or p = 'p0'").rows == 1 + 7 - 1
    left = sorted({*range(20)} - {3, 4, 13, 5} - {v for v in range(20) if v % 3 == 0})
    assert values(table) == left
    assert len(table.scan(snapshot=2).to_arrow()) == 20
    latest = table._stores.snapshots.load(4)
    assert (latest.commit_kind, latest.delta_record_count, latest.total_record_count) == (
        CommitKind.OVERWRITE,
        0,
        20,
    )
    report = compact(catalog, table)
    assert report.rows_in == report.rows_out <= len(left)
    assert values(table) == left
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert table._scanner.deletions(latest) == {}
    assert latest.total_record_count == len(left)
    assert compact(catalog, table).nothing_to_do


def test_nothing_to_delete_makes_no_snapshot() -> None:
    table = append_table(memory_catalog(), **MARKED)
    assert table.delete("v = 1").commit.snapshot_ids == ()
    numbers(table, range(3))
    found = table.delete("v > 7")
    assert (found.rows, found.commit.snapshot_ids) == (0, ())
    assert table.delete("v = 1", Commit(user="me", identifier=5)).commit.snapshot_ids == (2,)
    assert table.delete("v = 1", Commit(user="me", identifier=5)).rows == 0
    with pytest.raises(InvalidInputError, match="nope"):
        table.delete("nope = 1")


def test_only_touched_index_files_are_replaced() -> None:
    table = append_table(memory_catalog(), **MARKED, deletion_vector__index_file__target_size="1 b")
    numbers(table, range(5), range(5, 10), range(10, 15))
    table.delete("v = 1 or v = 6 or v = 11")
    table.delete("v = 7")
    first, second = (table._scanner.index_files(table._stores.snapshots.load(n)) for n in (4, 5))
    assert len(first) == len(second) == 3
    assert len({file.file_name for file in first} & {file.file_name for file in second}) == 2


def test_another_commit_in_between() -> None:
    """A compaction takes the files away: rows are looked up again. A delete of other rows: both hold."""
    catalog = memory_catalog()
    table = append_table(catalog, **MARKED)
    numbers(table, range(5), range(5, 10))

    class Meanwhile:
        def __init__(self, *steps: Any) -> None:
            self.steps = list(steps)

        def __getattr__(self, name: str) -> Any:
            return getattr(table._stores.file_io, name)

        def publish(self, path: str, data: bytes) -> bool:
            if self.steps:
                self.steps.pop(0)()
            return table._stores.file_io.publish(path, data)

    def through(*steps: Any) -> Table:
        return with_stores(table, file_io=Meanwhile(*steps))

    through(lambda: table.delete("v = 2"), lambda: compact(catalog, table)).delete("v = 3 or v = 7")
    assert values(table) == [0, 1, 4, 5, 6, 8, 9]
    one = through(*[lambda n=n: table.delete(f"v = {n}") for n in (0, 1)])
    with pytest.raises(CommitConflictError, match="index file to be replaced was replaced"):
        one.with_options({"commit.max-retries": "1"}).delete("v = 9")
    assert values(table) == [4, 5, 6, 8, 9]
    assert {s.name for s in table._stores.file_io.list(table._stores.paths.index_dir)} == {
        file.file_name
        for number in table._stores.snapshots.list_ids()
        for file in table._scanner.index_files(table._stores.snapshots.load(number))
    }


def test_a_delete_while_a_compaction_runs_is_not_undone() -> None:
    catalog = memory_catalog()
    table = append_table(catalog, **MARKED)
    numbers(table, range(5), range(5, 10), range(10, 15))
    table.delete("v = 1")

    from lakecore.executor import SerialExecutor

    class Deleting(SerialExecutor):
        def run(self, function: Any, tasks: Any) -> Any:
            results = list(super().run(function, tasks))
            table.delete("v = 6")
            yield from results

    report = run(Job(table=table.name, strategy=Strategy.FULL), catalog, Deleting())
    assert report.dropped
    assert values(table) == [v for v in range(15) if v not in (1, 6)]
    compact(catalog, table)
    assert values(table) == [v for v in range(15) if v not in (1, 6)]


def test_a_key_table_gets_deletes() -> None:
    catalog = memory_catalog()
    table = key_table(catalog)
    put(table, [{"k": k, "v": f"v{k}"} for k in range(6)], [{"k": 1, "v": "x"}])
    assert table.delete("v = 'x' or k >= 4").rows == 3
    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [0, 2, 3]
    assert table.delete("k = 1").commit.snapshot_ids == ()
    compact(catalog, table)
    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [0, 2, 3]


def test_deletes_of_a_key_table_with_vectors_count_once_it_is_compacted() -> None:
    catalog = memory_catalog()
    table = key_table(catalog, **MARKED)
    put(table, [{"k": k, "v": f"v{k}"} for k in range(4)])
    assert table.delete("k = 3").rows == 1
    compact(catalog, table)
    assert table.delete("k = 1").rows == 1
    assert table.scan().to_arrow().num_rows == 3
    compact(catalog, table, Strategy.UNIVERSAL)
    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [0, 2]


@pytest.mark.parametrize(
    ("keyed", "options", "problem"),
    [
        (False, {}, "deletion-vectors.enabled=false"),
        (True, {"ignore_delete": "true"}, "ignore-delete=true"),
        (True, {"rowkind__field": "v"}, "rowkind.field=v"),
    ],
)
def test_refusals(keyed: bool, options: dict[str, str], problem: str) -> None:
    make = key_table if keyed else append_table
    table = make(memory_catalog(), **options)  # type: ignore[operator]
    with pytest.raises(UnsupportedError, match=problem):
        table.delete("v is null")


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "delete", "delete", "universal", "full"]),
            st.integers(0, 40),
            st.integers(1, 12),
        ),
        max_size=10,
    )
)
def test_any_history_leaves_what_a_list_would(steps: list[tuple[str, int, int]]) -> None:
    catalog = memory_catalog("history")
    table = append_table(
        catalog, **MARKED, target_file_size="600 b", deletion_vector__index_file__target_size="50 b"
    )
    expected: list[int] = []
    for what, start, count in steps:
        inside = range(start, start + count)
        if what == "add":
            numbers(table, inside)
            expected += inside
        elif what == "delete":
            gone = [v for v in expected if v in inside]
            assert table.delete(f"v >= {start} and v < {start + count}").rows == len(gone)
            expected = [v for v in expected if v not in inside]
        else:
            compact(catalog, table, Strategy(what))
        assert values(table) == sorted(expected)
