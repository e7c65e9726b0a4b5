"""Compactions of keyed tables whose files are sorted by other columns than the key."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.compact import compaction
from lakecore.compact.kinds.clustered_primary_key.plan import ClusteredRequest, bounds_of, plan_clustered
from lakecore.compact.kinds.primary_key import run as merge_run
from lakecore.compact.kinds.sort.plan import CutPolicy
from lakecore.errors import ProofError
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.lookup import scattered
from lakecore.merge import passes, row_sorter
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.binary_row import encode_row
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.table import Table
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.lakecore.compact.test_cluster import Meddling, TwoCores, keys_of
from tests.support.builders import data_file, manifest_entry
from tests.support.lake import key_table, live_files, memory_catalog, put, rows_of

COLUMNS = ("k INT", "j STRING", "n INT", "s STRING", "p STRING")
Row = dict[str, Any]


def table_in(catalog: Any, engine: str = "deduplicate", **options: str) -> Table:
    if engine == "deduplicate":
        options["deletion_vectors__enabled"] = "true"
    raw = {"pk_clustering_override": "true", "clustering__columns": "s,n", "merge_engine": engine, **options}
    return key_table(catalog, COLUMNS, ("p", "k", "j"), ("p",), **raw)


def random_rows(dice: random.Random, count: int, engine: str) -> list[Row]:
    kinds = ("+I", "+I", "+I", "-D") if engine == "deduplicate" else ("+I",)
    return [
        {
            "k": dice.randrange(60),
            "j": dice.choice(("", "ü")),
            "n": dice.choice((None, 1, 2, -3)),
            "s": dice.choice((None, "", "b", f"text {dice.randrange(99)}")),
            "p": dice.choice("xy"),
            "_kind": dice.choice(kinds),
        }
        for _ in range(count)
    ]


def compacted(
    catalog: Any, table: Table, strategy: Strategy, proof: ProofMode, executor: Any = None
) -> Report:
    job = Job(table=table.name, strategy=strategy, proof=proof)
    return run(job, catalog, executor, clock=catalog.clock)


@pytest.mark.parametrize(
    ("engine", "small"), [("deduplicate", False), ("deduplicate", True), ("first-row", True)]
)
def test_compactions_leave_the_rows_of_a_model(
    monkeypatch: pytest.MonkeyPatch, engine: str, small: bool
) -> None:
    """`small`: buffers spill, level 0 has more runs than may be open, merges are cut into ranges."""
    if small:
        monkeypatch.setattr(row_sorter.RowSorter.__init__, "__defaults__", (2048,))
        monkeypatch.setattr(scattered, "_BUFFER_BYTES", 2048)
        monkeypatch.setattr(merge_run, "_SORT_BYTES", 2048)
        monkeypatch.setattr(passes, "_PAGES_BUDGET", 0)
        monkeypatch.setattr(passes, "_FEWEST_RUNS", 2)
        monkeypatch.setattr(scattered, "_LEAST_BITS", 32)
        monkeypatch.setattr(scattered, "_BITS_A_KEY", 1)
    dice = random.Random(5)
    catalog = memory_catalog("clustered")
    table = table_in(catalog, engine, target_file_size="1 b" if small else "128 mb")
    model: dict[tuple[Any, ...], Row] = {}
    states: list[tuple[int, list[Any]]] = []
    for step in range(5):
        for _ in range(dice.choice((1, 2, 9))):
            rows = random_rows(dice, dice.choice((1, 30)), engine)
            put(table, rows)
            for row in rows:
                key = (row["p"], row["k"], row["j"])
                if engine == "deduplicate" or key not in model:
                    model[key] = row
        strategy = dice.choice((Strategy.FULL, Strategy.UNIVERSAL))
        proof = dice.choice((ProofMode.KEYS, ProofMode.FULL))
        compacted(catalog, table, strategy, proof, TwoCores() if small else None)
        wanted = [
            tuple(value for name, value in row.items() if name != "_kind")
            for row in model.values()
            if row["_kind"] == "+I"
        ]
        assert rows_of(table) == sorted(wanted, key=repr), step
        assert compacted(catalog, table, strategy, proof).snapshots == (), step
        states.append((table._stores.snapshots.latest_id() or 0, rows_of(table)))
        _check_difference(table, states[dice.randrange(len(states))], states[-1])
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True)
    assert [f for f in report.findings if f.kind is not FindingKind.ORPHAN] == []
    compacted(catalog, table, Strategy.FULL, ProofMode.KEYS)
    assert {(file.level, file.delete_row_count) for file in live_files(table)} == {(1, 0)}
    rule = SortRule(OrderStrategy.ORDER, ("s", "n"))
    for files in keys_of(table, rule).values():
        chain = [row for file in files for row in file]
        assert chain == sorted(chain)


def _check_difference(table: Table, before: tuple[int, list[Any]], after: tuple[int, list[Any]]) -> None:
    asked = {"incremental-between": f"{before[0]},{after[0]}", "incremental-between-scan-mode": "diff"}
    if before[0] < after[0]:
        news = [row for row in after[1] if row not in before[1]]
        assert rows_of(table.with_options(asked)) == news


@pytest.mark.parametrize("fault", ["missed", "order", "mark"])
def test_a_wrong_compaction_is_not_committed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A row of a key that was overlooked, rows out of order, a row marked that is another's."""

    def nothing(self: Any, hashes: Any) -> Any:
        return np.zeros(len(hashes), bool)

    def unsorted(self: Any, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch

    by_file = scattered.ScatteredRows._by_file

    def elsewhere(self: Any, batch: pa.RecordBatch, rows: Any) -> Any:
        return (replace(one, positions=2 - one.positions) for one in by_file(self, batch, rows))

    catalog = memory_catalog("clustered-fault")
    table = table_in(catalog)
    put(table, [{"k": k, "j": "", "n": 1, "s": f"{9 - k}", "p": "x"} for k in range(3)])
    compacted(catalog, table, Strategy.FULL, ProofMode.KEYS)
    put(table, [{"k": k, "j": "", "n": 1, "s": f"{9 - k}", "p": "x"} for k in (0, 5)])
    name, made = {
        "missed": ("_Marks.has", nothing),
        "order": ("RowSorter._sort", unsorted),
        "mark": ("ScatteredRows._by_file", elsewhere),
    }[fault]
    monkeypatch.setattr(f"{scattered.__name__}.{name}", made)
    with pytest.raises(ProofError, match={"order": "order of s, n"}.get(fault, "looked up")):
        compacted(catalog, table, Strategy.FULL, ProofMode.FULL)
    assert table._stores.snapshots.latest_id() == 3


def test_all_rows_of_a_key_are_replaced_where_an_earlier_compaction_left_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = memory_catalog("clustered-twice")
    table = table_in(catalog)
    for number in range(3):
        put(table, [{"k": k, "j": "", "n": number, "s": f"{k}", "p": "x"} for k in range(2 + number % 2)])
        with monkeypatch.context() as patch:
            if number == 1:
                patch.setattr(scattered._Marks, "has", lambda _, hashes: np.zeros(len(hashes), bool))
            compacted(catalog, table, Strategy.UNIVERSAL, ProofMode.KEYS if number == 1 else ProofMode.FULL)
        if number == 1:
            assert len(rows_of(table)) == 5
    assert rows_of(table) == [(0, "", 2, "0", "x"), (1, "", 2, "1", "x"), (2, "", 1, "2", "x")]


@pytest.mark.parametrize("fresh", [False, True])
def test_rows_marked_during_a_compaction_stay_marked(monkeypatch: pytest.MonkeyPatch, fresh: bool) -> None:
    """Another run marks rows of files that this one sorts (or looks rows up in): what this one made is left out."""

    def rows(number: int, *keys: int) -> list[Row]:
        return [{"k": k, "j": "", "n": number, "s": f"{k}", "p": "x"} for k in keys]

    def meddle() -> None:
        put(table, rows(7, 2, 9))
        with monkeypatch.context() as patch:
            patch.setattr(compaction, "_CLUSTERED_ROUNDS", 1)
            assert len(compacted(catalog, table, Strategy.UNIVERSAL, ProofMode.KEYS).snapshots) == 1

    catalog = memory_catalog("clustered-meddled")
    table = table_in(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_CLUSTERED_ROUNDS", 1)
        for number in range(2):
            put(table, rows(number, number, 2))
            compacted(catalog, table, Strategy.UNIVERSAL, ProofMode.KEYS)
    assert len(live_files(table)) == 2
    if fresh:
        put(table, rows(2, 1))
    report = compacted(catalog, table, Strategy.FULL, ProofMode.KEYS, Meddling(meddle))
    assert report.dropped == ("p=x/bucket-0",)
    for _ in range(2):
        ones = 2 if fresh else 1
        assert [row[:3] for row in rows_of(table)] == [(0, "", 0), (1, "", ones), (2, "", 7), (9, "", 7)]
        compacted(catalog, table, Strategy.FULL, ProofMode.KEYS)
    assert [file.level for file in live_files(table)] == [1]


Spec = tuple[int | None, int | None, int, int, int]


@pytest.mark.parametrize(
    ("files", "full", "groups"),
    [
        ([], True, []),
        ([(1, 5, 9, 0, 0)], True, []),
        ([(None, 5, 9, 0, 0), (5, 7, 90, 0, 0), (7, 7, 90, 0, 0)], False, []),
        ([(1, 5, 90, 0, 0), (5, 7, 90, 0, 0)], True, []),
        ([(1, 5, 90, 0, 0), (4, 7, 90, 0, 0)], False, [{0, 1}]),
        ([(None, None, 9, 0, 0), (6, 7, 9, 0, 0)], False, [{0, 1}]),
        ([(1, 5, 9, 0, 0), (5, 7, 90, 0, 0), (8, 9, 9, 0, 0)], False, []),
        ([(1, 5, 90, 0, 0), (5, 7, 90, 1, 0), (8, 9, 90, 0, 0)], False, []),
        ([(1, 5, 90, 0, 0), (5, 7, 90, 1, 0), (8, 9, 90, 0, 0)], True, [{1}]),
        ([(1, 9, 90, 0, 0), (2, 3, 1, 0, 0), (8, 12, 9, 0, 0), (15, 16, 90, 0, 0)], False, [{0, 1, 2}]),
        ([(1, 2, 9, 0, 0), (2, 3, 9, 0, 0), (4, 5, 90, 0, 0), (6, 7, 90, 0, 0)], False, [{0, 1}]),
        ([(1, 5, 90, 0, 0), (7, 9, 90, 0, 1)], False, [{0, 1}]),
    ],
)
def test_which_files_are_sorted_together(files: Sequence[Spec], full: bool, groups: list[set[int]]) -> None:
    """Files as (first, last, size, deletes, schema); half a target file is 50 bytes."""
    schema = table_in(memory_catalog("clustered-plan")).schema
    schema = replace(schema, options={**schema.options, "clustering.columns": "n"})
    other = replace(schema, id=1, options={**schema.options, "clustering.columns": "n,k"})
    kind = schema.row_type.select(("n",))
    made = [
        replace(
            data_file(f"{number}", level=1, size=size),
            delete_row_count=deletes,
            schema_id=schema_id,
            min_key=encode_row((low,), kind),
            max_key=encode_row((high,), kind),
        )
        for number, (low, high, size, deletes, schema_id) in enumerate(files)
    ]
    request = ClusteredRequest(
        full=full,
        everything=False,
        target_size=100,
        bounds_of=bounds_of(kind, {0: schema, 1: other}.__getitem__),
        cuts=CutPolicy(parallelism=1, target_file_size=100),
    )
    picks = plan_clustered(ManifestEntries.from_rows([manifest_entry(file) for file in made]), request)
    assert picks.fresh == ()
    assert [{int(file.file_name) for file in pick.files} for pick in picks.sorts] == groups
