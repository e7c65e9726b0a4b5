"""The merge of manifests: the rule as text, its meaning, and the base lists that Java Paimon made."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lakecore.commit.manifest_draft import ManifestDraft
from lakecore.commit.manifest_merge import (
    FullMerge,
    MergePolicy,
    full_merge_due,
    full_merge_inputs,
    minor_groups,
)
from lakecore.commit.partitions import PartitionBounds
from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.manifest.data_file import EntryKind, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries, RowSource
from lakecore.metadata.manifest.entry_request import EntryRequest
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.row.binary_row import encode_row
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.commit_table import CommitTable
from tests.support.golden import GoldenTable, golden_tables

TESTDATA = Path(__file__).parent / "testdata"
SCHEMA = table_schema("k BIGINT NOT NULL, dt INT", primary_keys=(), partition_keys=("dt",))


def manifest(words: list[str]) -> ManifestFile:
    name, size, deleted, low, high = words
    rows = [
        encode_row((None if bound == "-" else int(bound),), SCHEMA.partition_type) for bound in (low, high)
    ]
    nulls = 1 if "-" in (low, high) else 0
    return ManifestFile(
        file_name=name,
        file_size=int(size),
        num_added_files=3,
        num_deleted_files=int(deleted),
        partition_stats=SimpleStats(rows[0], rows[1], (nulls,)),
    )


def run(case: datadriven.Case) -> str:
    manifests = [manifest(line.split()) for line in case.input]
    target, full = int(case.args.get("target", 100)), int(case.args.get("full", 10**9))
    policy = MergePolicy(target, int(case.args.get("count", 30)), full)
    if not full_merge_due(manifests, policy):
        groups = minor_groups(manifests, policy)
        return " ".join("+".join(item.file_name for item in group) for group in groups)
    parts = [
        encode_row((None if value == "null" else int(value),), SCHEMA.partition_type)
        for value in case.args["deleted"].split(",")
        if value
    ]
    box = PartitionBounds.of(parts, SCHEMA.partition_type) if parts else None
    names = full_merge_inputs(manifests, box, policy)
    return "full: " + (" ".join(item.file_name for item in manifests if item.file_name in names) or "nothing")


def test_rule(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "manifest_merge.txt", run, rewrite)


def entries(names: str, kind: EntryKind = EntryKind.ADD) -> ManifestEntries:
    return ManifestEntries.from_rows([manifest_entry(data_file(name), kind=kind) for name in names])


def write(table: CommitTable, *parts: tuple[str, str]) -> list[ManifestFile]:
    """One manifest a part: names added, names deleted."""
    found: list[ManifestFile] = []
    for added, deleted in parts:
        both = ManifestEntries.concat([entries(added), entries(deleted, EntryKind.DELETE)])
        found += table.manifests.write(both)
    return found


def content(table: CommitTable, files: Sequence[ManifestFile]) -> list[str]:
    return [
        " ".join(
            ("+" if e.kind is EntryKind.ADD else "-") + e.file.file_name for e in table.manifests.read([f])
        )
        for f in files
    ]


@pytest.mark.parametrize(
    ("policy", "after"),
    [
        (MergePolicy(1 << 20, 30, 1 << 30), ["+a +b", "+c", "-a -x", "+d"]),
        (MergePolicy(1 << 20, 4, 1 << 30), ["+b +c -x +d"]),
        (MergePolicy(1, 30, 1 << 30), ["+a +b", "+c", "-a -x", "+d"]),
        (MergePolicy(1 << 20, 30, 1), ["+b +c +d"]),
        # nothing is small, one manifest has DELETEs: the others are kept unless they are hurt
        (MergePolicy(1, 30, 1), ["+c", "+d", "+b"]),
    ],
)
def test_merged_manifests_mean_the_same(policy: MergePolicy, after: list[str]) -> None:
    table = CommitTable(table_schema(options={"manifest.target-file-size": "1 mb"}))
    before = write(table, ("ab", ""), ("c", ""), ("", "ax"), ("d", ""))
    merged = ManifestDraft(table.manifests).merge(before, table.schema.partition_type, policy)
    assert content(table, merged) == after
    names = [entry.file.file_name for entry in live_entries(table.manifests.read(merged))]
    assert sorted(names) == ["b", "c", "d"]


def test_an_upgrade_removes_the_file_of_the_lower_level_alone() -> None:
    """The same name in another partition, in another bucket and on another level is another file."""
    table = CommitTable(SCHEMA)
    parts = [encode_row((day,), table.schema.partition_type) for day in (1, 2)]
    places = [(parts[0], 0, 4), (parts[1], 0, 4), (parts[0], 1, 4), (parts[0], 0, 5)]
    adds = [
        manifest_entry(data_file("a", level=level), partition=partition, bucket=bucket)
        for partition, bucket, level in places
    ]
    removed = manifest_entry(data_file("a", level=4), kind=EntryKind.DELETE, partition=parts[0], bucket=0)
    rows = [[adds[1], adds[0]], [adds[2]], [removed, adds[3]]]
    before = [file for part in rows for file in table.manifests.write(ManifestEntries.from_rows(part))]
    merged = ManifestDraft(table.manifests).merge(
        before, table.schema.partition_type, MergePolicy(1 << 20, 30, 1)
    )
    assert [(e.partition, e.bucket, e.file.level) for e in table.manifests.read(merged)] == places[1:]


@pytest.mark.parametrize(
    "manifests", [(("ab", ""), ("bc", "")), (("abb", ""), ("c", "")), (("b", ""), ("ab", "b"))]
)
def test_a_file_that_is_added_twice_is_told_and_nothing_stays(
    manifests: tuple[tuple[str, str], ...],
) -> None:
    table = CommitTable()
    before = write(table, *manifests)
    kept = {status.name for status in table.storage.list(table.paths.manifest_dir)}
    with pytest.raises(CorruptDataError, match="file b of bucket 0, level 0 is added twice"):
        ManifestDraft(table.manifests).merge(before, table.schema.partition_type, MergePolicy(1 << 20, 30, 1))
    assert {status.name for status in table.storage.list(table.paths.manifest_dir)} == kept


def test_each_removal_is_known_to_a_full_merge() -> None:
    """Whatever its hash is: also the highest and the lowest one."""
    files = [manifest_entry(data_file(f"data-{number}.parquet")) for number in range(9)]
    for count in range(1, len(files) + 1):
        removed = [replace(one, kind=EntryKind.DELETE) for one in files[:count]]
        merge = FullMerge(ManifestEntries.from_rows(removed))
        assert merge.remaining(ManifestEntries.from_rows(files)).rows() == files[count:]


def test_equal_hashes_by_chance_are_not_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("commit.manifest_merge", "metadata.manifest.live_entries"):
        monkeypatch.setattr(
            f"lakecore.{module}.identity_hash", lambda entries: np.zeros(len(entries), np.uint64)
        )
    table = CommitTable()
    before = write(table, ("ab", ""), ("c", ""), ("", "ax"), ("d", ""))
    merged = ManifestDraft(table.manifests).merge(
        before, table.schema.partition_type, MergePolicy(1 << 20, 30, 1)
    )
    assert content(table, merged) == ["+b +c +d"]


@pytest.mark.parametrize("kind", ["avro", "parquet", "orc"])
def test_a_full_merge_has_one_manifest_after_the_other_in_memory(kind: str) -> None:
    """Entries of 60 manifests are joined to some larger ones, while few of them are in memory."""
    options = {"manifest.target-file-size": "1 kb", "manifest.format": kind}
    table = CommitTable(table_schema(options=options))
    alive: list[weakref.ref[RowSource]] = []
    most = 0

    class Watched(RowSource):
        pass

    class Counting(ManifestStore):
        def read(self, files: Sequence[ManifestFile], *request: EntryRequest) -> ManifestEntries:
            nonlocal most
            entries = ManifestEntries.from_rows(super().read(files, *request).rows())
            watched = Watched(tuple(entries.files()))
            alive.append(weakref.ref(watched))
            most = max(most, sum(one() is not None for one in alive))
            return replace(entries, sources=(watched,))

    before = [
        file
        for first in range(60)
        for file in table.manifests.write(
            ManifestEntries.from_rows([manifest_entry(data_file(f"{first:02d}-{n:02d}")) for n in range(40)])
        )
    ]
    before += write(table, ("", ""), ("z", "")) + list(
        table.manifests.write(
            ManifestEntries.from_rows([manifest_entry(data_file("07-11"), kind=EntryKind.DELETE)])
        )
    )
    store = Counting(table.storage, table.paths, table.schema, table.clock)
    merged = ManifestDraft(store).merge(before, table.schema.partition_type, MergePolicy(1 << 20, 30, 1))
    found = [entry.file.file_name for entry in table.manifests.read(merged)]
    assert found == [name for n in range(2400) if (name := f"{n // 40:02d}-{n % 40:02d}") != "07-11"] + ["z"]
    if kind == "avro":
        assert 2 < len(merged) < 60
        assert most < 30
        assert all(file.file_size > 1 << 10 for file in merged[:-1])


def test_a_draft_removes_what_it_wrote_and_nothing_else() -> None:
    table = CommitTable()
    before = write(table, ("ab", ""), ("", "a"))
    kept = {status.name for status in table.storage.list(table.paths.manifest_dir)}
    draft = ManifestDraft(table.manifests)
    draft.write_base(before, table.schema.partition_type, MergePolicy(1 << 20, 2, 1 << 30))
    draft.write_list(entries("c"))
    draft.discard()
    assert {status.name for status in table.storage.list(table.paths.manifest_dir)} == kept


def test_unknown_columns_are_not_rewritten() -> None:
    table = CommitTable()

    class Newer(ManifestStore):
        def read(self, files: Sequence[ManifestFile]) -> ManifestEntries:
            rows = super().read(files).rows()
            return ManifestEntries.from_rows(rows, has_unknown_columns=True)

    before = write(table, ("a", ""), ("b", ""))
    newer = Newer(table.storage, table.paths, table.schema, table.clock)
    draft = ManifestDraft(newer)
    assert draft.merge(before, table.schema.partition_type, MergePolicy(1 << 20, 30, 1 << 30)) == tuple(
        before
    )
    for policy in (MergePolicy(1 << 20, 2, 1 << 30), MergePolicy(1 << 20, 30, 1)):
        with pytest.raises(UnsupportedError, match="columns unknown to this release"):
            draft.merge(before, table.schema.partition_type, policy)
    listed = [replace(before[0], has_unknown_columns=True), *before[1:]]
    with pytest.raises(UnsupportedError, match="manifest lists that have columns unknown to this release"):
        draft.write_base(listed, table.schema.partition_type, MergePolicy(1 << 20, 30, 1 << 30))


MERGED = [table for table in golden_tables() if "man_merge" in table.table]


@pytest.mark.parametrize("table", MERGED, ids=lambda table: f"{table.version} {table.name}")
def test_base_lists_that_java_made_are_predicted(table: GoldenTable) -> None:
    storage, paths = LocalFileIO(), TablePaths(str(table.path))
    schema = SchemaStore(storage, paths).latest()
    assert schema is not None
    snapshots = SnapshotStore(storage, paths)
    manifests = ManifestStore(storage, paths, schema)
    dry = CommitTable(schema)
    policy = MergePolicy.from_options(schema.options)
    merges = 0
    for snapshot_id in snapshots.list_ids()[1:]:
        before = manifests.data_manifests(snapshots.load(snapshot_id - 1))
        expected = manifests.read_list(snapshots.load(snapshot_id).base_manifest_list)
        draft = ManifestDraft(_WriteElsewhere(storage, paths, schema, target=dry.manifests))
        found = draft.merge(before, schema.partition_type, policy)
        known = {file.file_name for file in before}
        assert [f.file_name in known and f.file_name for f in found] == [
            f.file_name in known and f.file_name for f in expected
        ]
        for ours, theirs in zip(found, expected, strict=True):
            if ours.file_name not in known:
                merges += 1
                assert dry.manifests.read([ours]).rows() == manifests.read([theirs]).rows()
    assert merges > 0


class _WriteElsewhere(ManifestStore):
    """Reads a golden table, writes to a scratch one."""

    def __init__(self, *where: object, target: ManifestStore) -> None:
        super().__init__(*where)  # type: ignore[arg-type]
        object.__setattr__(self, "_target", target)

    def write_parts(self, parts: Iterable[ManifestEntries]) -> tuple[ManifestFile, ...]:
        return self._target.write_parts(parts)  # type: ignore[attr-defined,no-any-return]
