"""Putting rows in order: nothing is lost, whatever others do meanwhile; the rule holds; what cannot be is refused."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.sort import units
from lakecore.errors import InvalidInputError, ProofError, UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact import Job, OrderStrategy
from lakecore.merge import row_sorter as sorter
from lakecore.metadata.snapshot import CommitKind
from lakecore.row.sort_rule import SortRule
from lakecore.table import Table
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put, rows_of

COLUMNS = ("a INT", "b BIGINT", "s STRING", "p STRING")
ORDER, ZORDER, HILBERT = OrderStrategy.ORDER, OrderStrategy.ZORDER, OrderStrategy.HILBERT


class TwoCores(SerialExecutor):
    """Says that it runs two units at once, so that partitions are cut."""

    parallelism = 2


def filled(catalog: FilesystemCatalog, **options: str) -> Table:
    """Two partitions of five files with rows in no order, nulls and texts of any length among them."""
    table = append_table(catalog, COLUMNS, ("p",), **options)
    chance = random.Random(7)
    for _ in range(5):
        put(table, [_row(chance, p) for p in "xy" for _ in range(60)])
    return table


def _row(chance: random.Random, p: str) -> dict[str, Any]:
    text = chance.choice([None, "", "ä" * chance.randrange(9), f"t{chance.randrange(99)}"])
    return {
        "a": chance.choice([None, chance.randrange(-9, 50)]),
        "b": chance.randrange(10**6),
        "s": text,
        "p": p,
    }


def job(table: Table, strategy: OrderStrategy, *columns: str, **more: Any) -> Job:
    return Job(table=table.name, order_strategy=strategy, order_by=columns, **more)


def keys_of(
    table: Table, rule: SortRule, names: frozenset[str] | set[str] | None = None
) -> dict[str, list[list[tuple[Any, ...]]]]:
    """By partition the sort keys of the rows of each file, the files in the order of their first row."""
    found: dict[str, list[list[tuple[Any, ...]]]] = {}
    latest = table._stores.snapshots.latest()
    assert latest is not None
    for entry in table._scanner.live_entries(latest):
        if names is not None and entry.file.file_name not in names:
            continue
        directory = table._read_context().bucket_dir(entry.partition, entry.bucket)
        stored = pa.BufferReader(
            table._stores.file_io.read(table._stores.paths.data_file(directory, entry.file))
        )
        rows = pa.parquet.read_table(stored).combine_chunks()
        keys = rule.keys([rows.column(name).combine_chunks() for name in rule.columns])
        found.setdefault(directory, []).append(list(zip(*(key.to_pylist() for key in keys), strict=True)))
    return {directory: sorted(files) for directory, files in found.items()}


@pytest.mark.parametrize(
    ("strategy", "columns"),
    [(ORDER, ("s", "a")), (ORDER, ("a",)), (ZORDER, ("a", "s")), (HILBERT, ("a", "b", "s"))],
)
@pytest.mark.parametrize("spilling", [False, True])
def test_rows_are_in_order_within_and_between_files(
    monkeypatch: pytest.MonkeyPatch, strategy: OrderStrategy, columns: tuple[str, ...], spilling: bool
) -> None:
    if spilling:
        monkeypatch.setattr(sorter.RowSorter.__init__, "__defaults__", (4096,))
        monkeypatch.setattr(sorter, "_MOST_RUNS", 3)
    catalog = memory_catalog("cluster")
    table = filled(catalog, target_file_size="1 kb", zorder__var_length_contribution="5")
    before = rows_of(table)
    report = compact.run(job(table, strategy, *columns), catalog, TwoCores(), catalog.clock)
    rule = SortRule(strategy, columns, 5)
    assert rows_of(table) == before
    for files in keys_of(table, rule).values():
        assert len(files) > 1
        flat = [key for keys in files for key in keys]
        assert flat == sorted(flat)
    assert report.files_in == 10
    assert "every column; the rows of the outputs are in the order of " + str(rule) in report.proof
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT


class Watching(TwoCores):
    """Remembers how many files each unit was given."""

    def run(self, function: Any, tasks: Any) -> Any:
        given = list(tasks)
        self.files = [len(measured.task.files) for measured in given]
        return super().run(function, given)


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ((ORDER, ("a",)), [4, 4]),  # one file has rows of both, one has nulls, which come first
        ((ORDER, ("s", "a")), [4, 4]),
        ((ZORDER, ("a", "s")), [4, 4]),
        ((HILBERT, ("a", "s")), [6, 6]),
        ((ORDER, ("d",)), [6, 6]),
    ],
    ids=str,
)
def test_a_range_reads_the_files_that_may_have_its_rows(
    rule: tuple[OrderStrategy, tuple[str, ...]], files: list[int]
) -> None:
    catalog = memory_catalog("cluster-ranges")
    table = append_table(catalog, ("a INT", "s STRING", "d DOUBLE"), target_file_size="1 kb")
    for n in range(6):
        rows = [{"a": 100 * n + i, "s": f"{n}{i:03}" * 9, "d": float(i)} for i in range(100)]
        put(table, rows + ([{"a": None, "s": None, "d": 1.0}] if n == 4 else []))
    before, engine = rows_of(table), Watching()
    report = compact.run(job(table, rule[0], *rule[1]), catalog, engine, catalog.clock)
    assert (report.error, rows_of(table)) == (None, before)
    assert engine.files == files


def test_statistics_that_lie_stop_a_sort_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range is told not to read a file that has rows of it."""
    monkeypatch.setattr(units, "file_edges", lambda files, *_: [((1, -(10**6)), (1, -(10**5)))] * len(files))
    catalog = memory_catalog("cluster-lies")
    table = filled(catalog, target_file_size="1 kb")
    with pytest.raises(ProofError, match="its units read"):
        compact.run(job(table, ORDER, "b"), catalog, TwoCores(), catalog.clock)
    assert table._stores.snapshots.latest_id() == 5


def test_clustering_columns_of_the_table_are_the_default() -> None:
    catalog = memory_catalog("cluster-default")
    table = filled(catalog, clustering__columns="b, a")
    assert "order(b, a)" in compact.run(job(table, ORDER), catalog, clock=catalog.clock).proof


def test_a_dry_run_only_plans() -> None:
    catalog = memory_catalog("cluster-dry")
    table = filled(catalog)
    report = compact.run(job(table, ZORDER, "a", "b", dry_run=True), catalog, clock=catalog.clock)
    assert (len(report.planned), report.snapshots, table._stores.snapshots.latest_id()) == (2, (), 5)


def test_only_the_partitions_asked_for_are_put_in_order() -> None:
    catalog = memory_catalog("cluster-where")
    table = filled(catalog)
    report = compact.run(job(table, ORDER, "a", where="p=x"), catalog, clock=catalog.clock)
    assert (report.files_in, report.files_out, len(live_files(table))) == (5, 1, 6)


def test_a_second_run_of_the_same_name_does_nothing() -> None:
    catalog = memory_catalog("cluster-again")
    table = filled(catalog)
    named = job(table, ORDER, "a", commit_user="me", commit_identifier=5)
    first = compact.run(named, catalog, clock=catalog.clock)
    put(table, [{"a": 1, "b": 1, "s": "", "p": "x"}])
    again = compact.run(named, catalog, clock=catalog.clock)
    assert (again.nothing_to_do, again.snapshots) == (True, first.snapshots)


def test_what_is_in_order_is_left_alone_by_every_run_until_it_changes() -> None:
    catalog = memory_catalog("cluster-marks")
    table = filled(catalog, deletion_vectors__enabled="true")

    def sort(*columns: str, strategy: OrderStrategy = ORDER, **more: Any) -> tuple[int, int]:
        report = compact.run(job(table, strategy, *columns, **more), catalog, clock=catalog.clock)
        return report.picks_done, report.in_order

    assert sort("a", "b", where="p=x") == (1, 0)
    assert sort("a", "b") == (1, 1)
    assert sort("a", "b") == (0, 2)
    assert sort("a", "b", force=True) == (2, 0)
    assert sort("a") == (2, 0)
    assert sort("a", "b", strategy=ZORDER) == (2, 0)
    put(table, [{"a": 1, "b": 1, "s": "", "p": "x"}])
    assert sort("a", "b", strategy=ZORDER) == (1, 1)
    table.delete("p = 'y' and b < 500000")
    assert sort("a", "b", strategy=ZORDER) == (1, 1)
    catalog.alter_table(
        table.name, [{"op": "drop", "name": "b"}, {"op": "add", "name": "b", "type": "BIGINT"}]
    )
    assert sort("a", "b", strategy=ZORDER) == (2, 0)
    meddling = Meddling(lambda: put(table, [{"a": 1, "b": 1, "s": "", "p": "x"}]))
    compact.run(job(table, ORDER, "a"), catalog, meddling, catalog.clock)
    assert sort("a") == (1, 1)
    catalog.file_io.overwrite(f"{catalog.warehouse}/.lakecore/sorted/{table.name}.json", b"[1")
    assert sort("a") == (2, 0)


class Meddling(SerialExecutor):
    """Something else happens when units have run, before their results are committed; once."""

    def __init__(self, deed: Any) -> None:
        super().__init__()
        self._deed = deed

    def run(self, function: Any, tasks: Any) -> Any:
        results = list(super().run(function, tasks))
        deed, self._deed = self._deed, lambda: None
        deed()
        yield from results


def test_inserts_during_a_sort_stay() -> None:
    """The accident: a sort compaction overwrote its partitions, and with them what was inserted meanwhile."""
    catalog = memory_catalog("cluster-accident")
    table = filled(catalog)
    new = [{"a": 77, "b": 77, "s": "new", "p": p} for p in ("x", "y", "z")]
    wanted = sorted(rows_of(table) + [tuple(row.values()) for row in new], key=repr)
    report = compact.run(job(table, ORDER, "a"), catalog, Meddling(lambda: put(table, new)), catalog.clock)
    assert rows_of(table) == wanted
    assert (report.dropped, report.files_in, report.files_out) == ((), 10, 2)


def test_what_another_compaction_took_away_is_planned_again_and_only_that() -> None:
    catalog = memory_catalog("cluster-conflict")
    table = filled(catalog)
    before = rows_of(table)
    other = Job(table=table.name, strategy=compact.Strategy.FULL, where="p=y")
    meddling = Meddling(lambda: compact.run(other, catalog, clock=catalog.clock))
    report = compact.run(job(table, ORDER, "a"), catalog, meddling, catalog.clock)
    assert rows_of(table) == before
    assert (report.dropped, report.picks_done, report.files_in) == ((), 2, 6)
    for files in keys_of(table, SortRule(ORDER, ("a",))).values():
        assert [key for keys in files for key in keys] == sorted(key for keys in files for key in keys)


def test_rows_deleted_meanwhile_stay_deleted() -> None:
    catalog = memory_catalog("cluster-deletes")
    table = filled(catalog, deletion_vectors__enabled="true")
    table.delete("a < 0")
    meddling = Meddling(lambda: table.delete("a > 40"))
    wanted = [row for row in rows_of(table) if row[0] is None or row[0] <= 40]
    report = compact.run(job(table, ORDER, "a"), catalog, meddling, catalog.clock)
    assert rows_of(table) == wanted
    assert (report.dropped, report.rows_in) == ((), len(wanted))
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert dict(table._scanner.deletions(latest)) == {}


def test_rows_keep_their_ids_and_sequence_numbers() -> None:
    catalog = memory_catalog("cluster-tracking")
    table = filled(catalog, row_tracking__enabled="true", target_file_size="2 kb")
    before = _tracked(catalog)
    compact.run(job(table, ZORDER, "a", "b"), catalog, TwoCores(), catalog.clock)
    assert _tracked(catalog) == before
    put(table, [{"a": 1, "b": 2, "s": "3", "p": "x"}])
    assert len({row[-2] for row in _tracked(catalog)}) == len(before) + 1


def _tracked(catalog: FilesystemCatalog) -> list[tuple[Any, ...]]:
    found = catalog.load_table("d.a$row_tracking").scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


REFUSED: list[tuple[dict[str, Any], OrderStrategy, tuple[str, ...], type[Exception], str]] = [
    ({"bucket": "2", "bucket_key": "a"}, ORDER, ("a",), UnsupportedError, "without buckets"),
    ({"clustering__incremental": "true"}, ORDER, ("a",), UnsupportedError, "clustering.incremental"),
    (
        {"clustering__incremental": "true"},
        OrderStrategy.NONE,
        (),
        InvalidInputError,
        "needs clustering.columns",
    ),
    (
        {"clustering__incremental": "true", "clustering__columns": "a", "clustering__strategy": "xorder"},
        OrderStrategy.NONE,
        (),
        InvalidInputError,
        "must be auto, order",
    ),
    (
        {"data_evolution__enabled": "true", "row_tracking__enabled": "true"},
        ORDER,
        ("a",),
        UnsupportedError,
        "data-evolution",
    ),
    ({}, ORDER, (), InvalidInputError, "--order-by"),
    ({}, ORDER, ("nope",), InvalidInputError, "no column 'nope'"),
    ({}, ORDER, ("p",), InvalidInputError, "partition column"),
    ({}, ORDER, ("a", "a"), InvalidInputError, "twice"),
    ({}, HILBERT, ("a",), InvalidInputError, "two columns"),
    ({}, OrderStrategy.NONE, ("a",), InvalidInputError, "strategy"),
    ({"zorder__var_length_contribution": "0"}, ZORDER, ("s",), InvalidInputError, "at least 1"),
]


@pytest.mark.parametrize(("options", "strategy", "columns", "error", "text"), REFUSED)
def test_refused_before_anything_is_written(
    options: dict[str, str],
    strategy: OrderStrategy,
    columns: tuple[str, ...],
    error: type[Exception],
    text: str,
) -> None:
    catalog = memory_catalog("cluster-refused")
    table = append_table(catalog, COLUMNS, ("p",), **options)
    put(table, [{"a": 1, "b": 2, "s": "3", "p": "x"}])
    with pytest.raises(error, match=text):
        compact.run(job(table, strategy, *columns), catalog, clock=catalog.clock)
    assert table._stores.snapshots.latest_id() == 1


def test_a_key_table_is_refused() -> None:
    catalog = memory_catalog("cluster-key")
    with pytest.raises(UnsupportedError, match="primary key"):
        compact.run(job(key_table(catalog), ORDER, "v"), catalog, clock=catalog.clock)


@pytest.mark.parametrize("fault", ["order", "rows"])
def test_a_wrong_sort_is_not_committed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def unsorted(self: sorter.RowSorter, batch: pa.RecordBatch) -> Any:
        yield batch if fault == "order" else batch.take(pa.array([0] * batch.num_rows))

    monkeypatch.setattr(sorter.RowSorter, "_sort", unsorted)
    catalog = memory_catalog("cluster-fault")
    table = filled(catalog)
    with pytest.raises(ProofError, match="order of" if fault == "order" else "digest"):
        compact.run(job(table, ORDER, "a"), catalog, clock=catalog.clock)
    assert table._stores.snapshots.latest_id() == 5


def test_a_partition_without_a_living_row_becomes_empty() -> None:
    catalog = memory_catalog("cluster-dead")
    table = filled(catalog, deletion_vectors__enabled="true")
    table.delete("p = 'x'")
    rows = rows_of(table)
    compact.run(job(table, ZORDER, "a", "b"), catalog, clock=catalog.clock)
    assert rows_of(table) == rows
    assert len(live_files(table)) == 1
