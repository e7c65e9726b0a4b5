"""Plans of groups of partitions are together the plan of the whole, however small the groups are."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.format.manifest import groups as block_groups
from lakecore.format.manifest import manifests
from lakecore.format.manifest.manifests import decode_manifests, encode_manifest
from lakecore.metadata.manifest.bucket_counts import BucketCounts
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import EntryRequest
from lakecore.read.source import scan as scans
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan import scanner as scanners
from lakecore.scan.filters import EVERYTHING, ScanFilter, select_entries
from lakecore.scan.split import SplitPlan
from lakecore.spark.data_source.partitions import plan_partitions, read_parts
from lakecore.spark.data_source.request import Parallelism
from lakecore.store import manifests as manifest_stores
from lakecore.table import Table
from lakecore.types.datatypes import RowType
from tests.lakecore.scan.test_plan_columns import random_rows
from tests.support.golden import golden_tables


@pytest.mark.parametrize("seed", range(30))
def test_each_entry_is_in_one_group(seed: int) -> None:
    rows, _ = random_rows(seed, ("INT",), 1 + seed * 4)
    entries, most = ManifestEntries.from_rows(rows), 1 + seed % 7
    counts = BucketCounts()
    for low in range(0, len(entries), 5):  # a bucket is counted in several steps
        counts.add(entries.select(slice(low, low + 5)))
    counts.add(ManifestEntries.empty())
    times: Counter[str] = Counter()
    for group in counts.groups(most):
        chosen = select_entries(
            entries, ScanFilter(serialized=group.partitions, buckets=group.buckets), RowType(())
        )
        times.update(row.file.file_name for row in chosen)
        assert len(chosen) <= most or len({(row.partition, row.bucket) for row in chosen}) == 1
    assert times == {row.file.file_name: 1 for row in rows}
    (everything,) = counts.groups(len(entries))
    assert everything.buckets is None


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_group_reads_its_blocks_only(is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests of many blocks, each decoded in several groups of blocks: every entry is read for its group,
    and where they are sorted few others are.
    """
    for name in ("_FIRST_GROUP_SIZE", "_GROUP_SIZE"):
        monkeypatch.setattr(block_groups, name, 100_000)
    rows, _ = random_rows(7, ("INT",), 6000)
    if is_sorted:
        rows.sort(key=lambda row: (row.partition, row.bucket))
    files = [(encode_manifest(rows[low : low + 3000]), f"t/manifest/m-{low}") for low in (0, 3000)]
    counts = BucketCounts()
    counts.add(decode_manifests(files))
    times: Counter[str] = Counter()
    decoded = 0
    for group in counts.groups(900):
        where = EVERYTHING.of_group(group)
        sent = pickle.loads(pickle.dumps(where))
        assert where.blocks is not None
        assert sent.blocks is not None
        entries = decode_manifests(files, EntryRequest(blocks=where.blocks))
        again = decode_manifests(files, EntryRequest(blocks=sent.blocks))
        assert len(entries) + entries.left_out == len(again) + again.left_out == 6000
        chosen = select_entries(entries, where, RowType(()))
        assert len(select_entries(again, sent, RowType(()))) == len(chosen)
        times.update(row.file.file_name for row in chosen)
        decoded += len(entries)
    assert times == {row.file.file_name: 1 for row in rows}
    assert (decoded < 2 * 6000) == is_sorted


def test_blocks_are_known_of_no_wider_filter() -> None:
    rows, _ = random_rows(7, ("INT",), 3000)
    counts = BucketCounts()
    data = encode_manifest(rows)
    counts.add(decode_manifests([(data, "t/manifest/m")]))
    for group in counts.groups(100):
        where = EVERYTHING.of_group(group)
        wider = replace(where, serialized=group.partitions | {b"other"})
        assert (
            wider.blocks
            is replace(where, serialized=None).blocks
            is replace(where, buckets=None).blocks
            is None
        )
        assert replace(where, levels=(0, 1)).blocks is where.blocks is not None
    with pytest.raises(CorruptDataError, match="blocks, but it had"):
        decode_manifests([(encode_manifest(rows[:2100]), "t/manifest/m")], EntryRequest(blocks=group.blocks))


def described(plan: Any) -> Iterator[tuple[Any, ...]]:
    for split in plan:
        if isinstance(plan, SplitPlan):
            files = tuple(file.file_name for file in split.files)
            yield split.partition, split.bucket, files, split.raw_convertible, split.deletions


def test_plans_of_golden_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of one entry, of which each bucket is one: the splits, and the deletion vectors, are the same.
    Manifests are decoded as large ones are.
    """
    monkeypatch.setattr(scanners, "_COUNTED_AT_ONCE", 3)
    monkeypatch.setattr(manifest_stores, "MANY_ENTRIES", 0)
    monkeypatch.setattr(manifests, "MANY_ENTRIES", 0)
    divided = 0
    for table in golden_tables():
        scan = lakecore.load_catalog(str(table.warehouse)).load_table(table.name).scan()
        plans = list(scan.plans(1))
        whole, parts = list(described(scan.plan())), [split for plan in plans for split in described(plan)]
        assert sorted(map(repr, parts)) == sorted(map(repr, whole)), table.name
        divided += len(plans) > 1
    assert divided > 50


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    made = catalog.create_table(
        "d.t", pa.schema([("p", pa.int32()), ("k", pa.int32()), ("v", pa.int32())]), partition_keys=["p"],
        primary_keys=["p", "k"], options={"bucket": "3"},
    )  # fmt: skip
    for version in range(2):
        rows = [(p, k, version * k) for p in range(4) for k in range(20)]
        p, k, v = zip(*rows, strict=True)
        made.upsert(pa.table({name: pa.array(c, pa.int32()) for name, c in (("p", p), ("k", k), ("v", v))}))
    return catalog.load_table("d.t")


def small_plans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every scan plans groups of five entries. Returns the number of files of each plan, as they are made."""
    sizes: list[int] = []
    plain = scans._plans

    def plans(source: Any, where: Any, most: int) -> Iterator[Any]:
        assert most == 1 << 20
        for plan in plain(source, where, 5):
            sizes.append(plan.file_count)
            yield plan

    monkeypatch.setattr(scans, "_plans", plans)
    return sizes


def test_a_scan_reads_group_after_group(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(scan: Scan) -> tuple[Any, ...]:
        rows = scan.to_arrow().sort_by([("p", "ascending"), ("k", "ascending")])
        return rows, scan.count(), scan.min_max()

    selections: tuple[dict[str, Any], ...] = ({}, {"where": "p >= 2"}, {"where": "v > 9"}, {"where": "p = 7"})
    expected = [facts(table.scan(**chosen)) for chosen in selections]
    assert expected[0][0]["v"].to_pylist() == [*range(20)] * 4
    sizes = small_plans(monkeypatch)
    assert [facts(table.scan(**chosen)) for chosen in selections] == expected
    assert max(sizes) <= 5
    assert len(sizes) > 3 * (8 + 4 + 8)
    assert table.scan(limit=33).to_arrow().num_rows == 33
    assert table.scan(limit=33).count() == 33
    first = len(sizes)
    assert table.scan(limit=1).to_arrow().num_rows == 1
    assert len(sizes) == first + 1  # the other groups were not planned


def test_small_tables_have_one_plan(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("entries of a small table were counted")

    monkeypatch.setattr(BucketCounts, "add", refuse)
    assert [plan.file_count for plan in table.scan().plans()] == [24]
    with pytest.raises(AssertionError, match="were counted"):
        list(table.scan().plans(23))
    rows = table.scan().source
    assert isinstance(rows, SnapshotRows)
    assert list(rows.groups(None)) == [EVERYTHING]


def test_a_snapshot_that_expires_between_two_plans(table: Table) -> None:
    plans = table.scan().plans(5)
    next(plans)
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    directory = Path(table.path.removeprefix("file:"))
    (directory / "snapshot" / f"snapshot-{snapshot.id}").unlink()
    for manifest in (directory / "manifest").glob("manifest-*"):
        manifest.unlink()
    with pytest.raises(NotFoundError, match="expired"):
        list(plans)


def test_tasks_of_spark_plan_their_groups(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = table.scan(where="v >= 5")
    assert isinstance(scan.source, SnapshotRows)
    plain = SnapshotRows.groups
    monkeypatch.setattr(SnapshotRows, "groups", lambda rows, where, most: plain(rows, where, 5, 5))
    partitions = plan_partitions(scan, Parallelism(None, 5))
    assert len(partitions) == 5
    tasks = pickle.loads(pickle.dumps(partitions))
    assert all(isinstance(part, ScanFilter) for parts in tasks for part in parts)
    rows = pa.Table.from_batches([batch for parts in tasks for batch in read_parts(scan, parts)])
    assert Counter(rows["v"].to_pylist()) == dict.fromkeys(range(5, 20), 4)
    assert len(plan_partitions(table.scan(), Parallelism(2, 1024))) == 2
    limited = table.scan(limit=7)
    (parts,) = plan_partitions(limited, Parallelism(None, 1024))
    assert sum(batch.num_rows for batch in read_parts(limited, parts)) == 7
    assert plan_partitions(table.scan(limit=0), Parallelism(None, 1024)) == ()
    assert np.unique(rows["p"]).tolist() == [0, 1, 2, 3]
