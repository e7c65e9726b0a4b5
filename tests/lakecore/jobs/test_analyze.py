"""Statistics are those of the merged rows, and a run of one name is made once."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, InvalidInputError, NotFoundError
from lakecore.executor import SerialExecutor
from lakecore.jobs import analyze
from lakecore.jobs.analyze import Job
from lakecore.maintain.analyze import columns
from lakecore.maintain.analyze.columns import ColumnSketch
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from lakecore.types.datatypes import DataField, parse_type
from lakecore.verify.fsck.check import fsck
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put, rows_of


def stats_of(table: Table) -> dict[str, Any]:
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert latest.statistics is not None
    raw: dict[str, Any] = json.loads(
        table._stores.file_io.read(table._stores.paths.statistics(latest.statistics))
    )
    return raw


def merged(catalog: FilesystemCatalog) -> Table:
    table = key_table(catalog, ("k INT", "v STRING", "a ARRAY<INT>"))
    put(table, [{"k": k, "v": "x" * (k % 3), "a": [k]} for k in range(10)])
    put(table, [{"k": 3, "v": None, "a": None, "_kind": "+I"}, {"k": 4, "v": "", "a": None, "_kind": "-D"}])
    return table


def test_the_rows_are_those_of_a_merged_read() -> None:
    catalog = memory_catalog("analyze")
    table = merged(catalog)
    report = analyze.run(Job(table=table.name, columns=("all",)), catalog, clock=catalog.clock)
    found = stats_of(table)
    assert (found["snapshotId"], found["schemaId"], found["mergedRecordCount"]) == (2, 0, 9)
    key, text = found["colStats"]["k"], found["colStats"]["v"]
    assert key == {
        "colId": 0,
        "distinctCount": 9,
        "min": "0",
        "max": "9",
        "nullCount": 0,
        "avgLen": 4,
        "maxLen": 4,
    }
    assert text == {"colId": 1, "distinctCount": 3, "nullCount": 1, "avgLen": 1, "maxLen": 2}
    assert report.names == ("k", "v")
    assert "have no statistics: a" in report.notes[0]
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert (latest.id, latest.commit_kind, latest.delta_record_count) == (3, CommitKind.ANALYZE, 0)
    assert latest.total_record_count == 12
    report_ = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True)
    assert report_.findings == ()
    put(table, [{"k": 100, "v": "new", "a": []}])
    assert stats_of(table) == found
    assert len(rows_of(table)) == 10


class Shared(SerialExecutor):
    """Says that it runs units at once, and hands all of them over as another process would."""

    parallelism = 3

    def run(self, function: Any, tasks: Any) -> Any:
        for task in tasks:
            self.units = getattr(self, "units", 0) + 1
            (found,) = super().run(function, [pickle.loads(pickle.dumps(task))])
            yield pickle.loads(pickle.dumps(found))


@pytest.mark.parametrize("kept", [4, 1 << 15])
def test_units_find_together_what_one_finds(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(columns, "_MOST_HASHES", kept)
    catalog = memory_catalog("analyze-units")
    table = append_table(catalog, ("v INT", "d DOUBLE", "s STRING", "p STRING"), ("p",))
    for n in range(8):
        texts = [None, "x" * n, f"{n}"]
        put(
            table,
            [
                {"v": n * i % 7, "d": float("nan" if n == 5 else n), "s": texts[i], "p": "ab"[n % 2]}
                for i in range(3)
            ],
        )
    found, shared = [], Shared()
    for executor in (None, shared):
        analyze.run(Job(table=table.name, columns=("all",)), catalog, executor, catalog.clock)
        found.append(stats_of(table))
    assert found[0]["colStats"] == found[1]["colStats"]
    assert found[1]["mergedRecordCount"] == 24
    assert shared.units == 2


def test_a_unit_that_fails_leaves_no_statistics() -> None:
    catalog = memory_catalog("analyze-fails")
    table = append_table(catalog)
    put(table, [{"v": 1, "p": "x"}])
    (path,) = paths_of(table)
    table._stores.file_io.delete(path)
    with pytest.raises(NotFoundError):
        analyze.run(Job(table=table.name), catalog, Shared(), catalog.clock)
    assert table._stores.snapshots.latest_id() == 1


def test_without_columns_only_rows_count() -> None:
    catalog = memory_catalog("analyze-rows")
    table = merged(catalog)
    analyze.run(Job(table=table.name), catalog, clock=catalog.clock)
    found = stats_of(table)
    assert (found["mergedRecordCount"], found["colStats"]) == (9, {})
    assert catalog.load_table("d.k$statistics").scan().to_arrow().num_rows == 1


def test_a_run_of_one_name_is_made_once_and_a_dry_run_never() -> None:
    catalog = memory_catalog("analyze-once")
    table = merged(catalog)
    named = Job(table=table.name, columns=("k",), commit_user="me", commit_identifier=4)
    dry = analyze.run(Job(table=table.name, dry_run=True), catalog, clock=catalog.clock)
    assert (dry.snapshot, table._stores.snapshots.latest_id()) == (None, 2)
    first = analyze.run(named, catalog, clock=catalog.clock)
    again = analyze.run(named, catalog, clock=catalog.clock)
    assert (first.snapshot, again.snapshot, again.nothing_to_do, table._stores.snapshots.latest_id()) == (
        3,
        3,
        True,
        3,
    )


@pytest.mark.parametrize(("names", "text"), [(("nope",), "no column"), (("a",), "no statistics")])
def test_columns_that_cannot_be_analyzed_are_refused(names: tuple[str, ...], text: str) -> None:
    catalog = memory_catalog("analyze-refused")
    with pytest.raises(InvalidInputError, match=text):
        analyze.run(Job(table=merged(catalog).name, columns=names), catalog, clock=catalog.clock)


def test_a_table_that_changed_its_columns_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("analyze-changed")
    table = merged(catalog)
    true = ColumnSketch.to_json

    def changing(self: ColumnSketch) -> dict[str, Any]:
        schema = table._stores.file_io.read(table._stores.paths.schema(0)).replace(b'"id": 0', b'"id": 1', 1)
        schema = schema.replace(b'"id" : 0', b'"id" : 1', 1)
        table._stores.file_io.overwrite(table._stores.paths.schema(1), schema)
        return true(self)

    monkeypatch.setattr(ColumnSketch, "to_json", changing)
    with pytest.raises(CommitConflictError, match="changed"):
        analyze.run(Job(table=table.name, columns=("k",)), catalog, clock=catalog.clock)
    assert table._stores.snapshots.latest_id() == 2
    assert table._stores.file_io.list(table._stores.paths.statistics_dir) == []


def test_an_empty_table_has_nothing_to_analyze() -> None:
    catalog = memory_catalog("analyze-empty")
    assert analyze.run(Job(table=append_table(catalog).name), catalog, clock=catalog.clock).nothing_to_do


BOUNDS = [
    ("BIGINT", pa.int64(), [5, None, -7], "-7", "5", 8),
    ("DOUBLE", pa.float64(), [1.5, float("nan"), -2.0], "-2.0", "NaN", 8),
    ("FLOAT", pa.float32(), [float("inf"), 0.5], "0.5", "Infinity", 4),
    ("BOOLEAN", pa.bool_(), [True, False], "false", "true", 1),
    ("DECIMAL(12, 2)", pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-3.25")], "-3.25", "1.50", 8),
    ("DECIMAL(30, 0)", pa.decimal128(30, 0), [Decimal(10**25)], "1" + "0" * 25, "1" + "0" * 25, 16),
    ("DATE", pa.date32(), [3, 19723], "3", "19723", 4),
    ("TIMESTAMP(3)", pa.timestamp("ms"), [1_700_000_000_123, -1], "1969-12-31 23:59:59.999", "2023-11-14 22:13:20.123", 8),
    ("TIMESTAMP(0)", pa.timestamp("ms"), [0], "1970-01-01 00:00:00", "1970-01-01 00:00:00", 8),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "low", "high", "width"), BOUNDS, ids=lambda v: str(v)[:14]
)
def test_bounds_as_texts(
    kind: str, arrow: pa.DataType, values: list[Any], low: str, high: str, width: int
) -> None:
    sketch = ColumnSketch(DataField(0, "x", parse_type(kind)))
    for value in values:
        sketch.add(
            pa.array([value], pa.int32()).view(arrow) if arrow == pa.date32() else pa.array([value], arrow)
        )
    found = sketch.to_json()
    assert (found["min"], found["max"], found["avgLen"], found["maxLen"]) == (low, high, width, width)
    assert found["nullCount"] == values.count(None)


def test_distinct_values_are_exact_while_few_and_near_when_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MOST_HASHES", 4096)
    sketch = ColumnSketch(DataField(0, "x", parse_type("BIGINT")))
    sketch.add(pa.array(range(4000), pa.int64()))
    sketch.add(pa.array(range(2000), pa.int64()))
    assert sketch.distinct == 4000
    for start in range(0, 200_000, 50_000):
        sketch.add(pa.array(range(start, start + 60_000), pa.int64()))
    assert abs(sketch.distinct - 210_000) < 210_000 * 0.06
