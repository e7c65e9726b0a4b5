"""Counts, least and greatest values, partitions and plans of scans; what Java read is the judge of the first two."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakecore
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.types.datatypes import AtomicType, TypeRoot
from tests.support.golden import GoldenTable, View, golden_tables
from tests.support.lake import append_table, key_table, memory_catalog


def without_order(kind: Any) -> bool:
    return not isinstance(kind, AtomicType) or kind.root in (TypeRoot.VARIANT, TypeRoot.BLOB)


@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_golden_tables(table: GoldenTable) -> None:
    scan = lakecore.load_catalog(str(table.warehouse)).load_table(table.name).scan()
    assert scan.count() == len(table.rows(View("rows.jsonl")))
    columns = [field.name for field in scan.row_type if not without_order(field.type)]
    chosen = lakecore.Scan.of(scan.source, None, columns)
    read = chosen.to_arrow()  # equals Java's rows: tests/golden/test_read.py
    for name, (low, high) in chosen.min_max().items():
        expected = pc.min_max(read.column(name).combine_chunks())
        assert (low, high) == (expected["min"], expected["max"]), name


def test_nothing_is_read_where_files_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    table = append_table(memory_catalog(), ("v INT", "p STRING"), ("p",))
    for start in (0, 50):
        table.append(pa.table({"v": range(start, start + 50), "p": ["a", "b"] * 25}))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("rows are read")

    monkeypatch.setattr(SnapshotRows, "read", refuse)
    assert table.scan().count() == 100
    assert table.scan(limit=7).count() == 7
    assert table.scan(where="p = 'a'").count() == 50
    assert table.scan(where="p = 'c'").count() == 0
    low, high = table.scan(columns=["v"], where="p = 'b'").min_max()["v"]
    assert (low.as_py(), high.as_py()) == (1, 99)
    with pytest.raises(AssertionError, match="rows are read"):
        table.scan(where="v < 3").count()
    with pytest.raises(AssertionError, match="rows are read"):
        table.scan(columns=["p"]).min_max()  # a text may be cut in statistics


def test_keys_that_are_merged_are_read() -> None:
    table = key_table(memory_catalog())
    for value in ("a", "b"):
        table.upsert(pa.table({"k": pa.array([1, 2], pa.int32()), "v": [value, None]}))
    assert table.scan().count() == 2
    assert [one.as_py() for one in table.scan(columns=["v"]).min_max()["v"]] == ["b", "b"]
    table.delete("k = 2")
    assert table.scan().count() == 1
    assert [one.as_py() for one in table.scan(where="k = 2").min_max()["v"]] == [None, None]


def test_files_whose_keys_no_other_file_has_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five files of one bucket, of which two share keys: these two are one split, and the only one."""
    table = key_table(memory_catalog())
    for start in (0, 10, 20, 30, 12):
        table.upsert(pa.table({"k": pa.array(range(start, start + 5), pa.int32()), "v": [str(start)] * 5}))
    read: list[int] = []
    right = SnapshotRows.read

    def recording(self: SnapshotRows, split: Any, *others: Any, **options: Any) -> Any:
        read.append(len(split.files))
        return right(self, split, *others, **options)

    monkeypatch.setattr(SnapshotRows, "read", recording)
    scan = table.scan(columns=["k"])
    assert len(scan.plan()) == 1
    assert (scan.count(), read) == (22, [2])
    assert ([one.as_py() for one in scan.min_max()["k"]], read) == ([0, 34], [2, 2])


def test_refusals() -> None:
    table = append_table(memory_catalog(), ("v INT", "l ARRAY<INT>"))
    with pytest.raises(InvalidInputError, match="leave the limit out"):
        table.scan(limit=1).min_max()
    with pytest.raises(InvalidInputError, match=r"column l: .* have no order"):
        table.scan().min_max()
    with pytest.raises(InvalidInputError, match="has no partitions"):
        table.scan().in_partitions([{"v": 1}])


def test_partitions_of_a_join() -> None:
    table = append_table(memory_catalog(), ("v INT", "p INT", "q STRING"), ("p", "q"))
    table.append(pa.table({"v": range(12), "p": [n % 3 for n in range(12)], "q": [None, "x"] * 6}))
    scan = table.scan(where="v < 10")
    rows = scan.in_partitions(pa.table({"p": pa.array([0, 2, 0], pa.int64())}))
    assert len(rows.plan()) == 4
    assert sorted(rows.to_arrow()["v"].to_pylist()) == [0, 2, 3, 5, 6, 8, 9]
    both = scan.in_partitions([{"p": 1, "q": "x"}, {"p": 2, "q": None}])
    assert sorted(both.to_arrow()["v"].to_pylist()) == [1, 2, 7, 8]
    assert list(scan.in_partitions([]).plan()) == []
    with pytest.raises(InvalidInputError, match=r"'v' is not a partition column of d\.a"):
        scan.in_partitions([{"v": 1}])
    with pytest.raises(InvalidInputError, match="different partition columns"):
        scan.in_partitions([{"p": 1}, {"q": "x"}])
    with pytest.raises(InvalidInputError, match="does not have the type"):
        scan.in_partitions([{"p": "x"}])


def test_what_a_plan_leaves_out() -> None:
    catalog = memory_catalog()
    table = append_table(catalog, ("v INT", "p STRING"), ("p",), source__split__open_file_cost="1 b")
    for start in (0, 50, 100):
        table.append(pa.table({"v": range(start, start + 50), "p": ["a", "b"] * 25}))
    found = table.scan(where="p = 'a' and v > 60").explain()
    assert (found.splits, found.files, found.merged_splits) == (1, 2, 0)
    left = {one.reason: one.files for one in found.skipped}
    assert left == {"conditions on partitions": 3, "statistics of columns": 1}
    assert found.size == sum(split.size for split in table.scan(where="p = 'a' and v > 60").plan())
    assert "skipped by statistics of columns" in repr(found)
    listing = catalog.load_table("d.a$files").scan()
    assert (listing.explain().splits, listing.explain().files) == (1, None)
    assert listing.count() == 6
    with pytest.raises(UnsupportedError, match="is not read by partitions"):
        listing.in_partitions([])
