"""fsck in groups of buckets: each pass has its entries only, and together they find what one pass finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.manifest import manifests
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import duplicate_adds
from lakecore.store import manifests as manifest_stores
from lakecore.table import Table
from lakecore.verify.fsck import check
from lakecore.verify.fsck.findings import Finding, FindingKind, Findings
from lakecore.verify.fsck.lineage import Lineage
from lakecore.verify.fsck.manifest_reader import ManifestReader
from lakecore.verify.fsck.passes import OnePass, Survey, TooManyFilesError
from lakecore.verify.fsck.totals import Totals
from tests.support.builders import data_file, manifest_entry
from tests.support.fsck_ways import check_both_ways
from tests.support.lake import key_table, memory_catalog, put

PARTITIONS = ("a", "b", "c")
Entries = list[ManifestEntry]


@pytest.fixture
def table() -> Table:
    """Three partitions of two buckets, with two commits to each."""
    made = key_table(
        memory_catalog("fsck-groups"), ("p STRING", "k INT", "v INT"), ("p", "k"), ("p",), bucket="2"
    )
    rows = [[{"p": p, "k": k, "v": k} for p in PARTITIONS for k in range(low, low + 9)] for low in (0, 9)]
    put(made, *rows)
    return made


@pytest.fixture(autouse=True)
def decoded_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small manifests are decoded as large ones are, so that groups leave out blocks."""
    for module in (manifest_stores, manifests):
        monkeypatch.setattr(module, "MANY_ENTRIES", 0)


def findings_of(table: Table, **mode: bool) -> Sequence[Finding]:
    return check_both_ways(table._stores.file_io, table._stores.paths, now_ms=0, **mode).findings


def change_latest(table: Table, change: Callable[[Entries], Entries], **values: Any) -> str:
    """Give the latest snapshot other entries, and return its path."""
    snapshot, store = table._stores.snapshots.latest(), table._stores.manifests
    assert snapshot is not None
    entries = store.read(store.data_manifests(snapshot)).rows()
    base, size = store.write_list([file for one in change(entries) for file in written(table, one)])
    empty, empty_size = store.write_list([])
    lists = {"base_manifest_list": base, "base_manifest_list_size": size, "delta_record_count": 0}
    lists |= {"delta_manifest_list": empty, "delta_manifest_list_size": empty_size}
    path = table._stores.paths.snapshot(snapshot.id)
    changed = replace(snapshot, **{**lists, **values})
    table._stores.file_io.overwrite(path, changed.to_json().encode())
    return path


def all_live(table: Table) -> Entries:
    return table._scanner.live_entries(table._stores.snapshots.latest()).rows()


def written(table: Table, entry: ManifestEntry) -> Any:
    return table._stores.manifests.write(ManifestEntries.from_rows([entry]))


def test_a_sound_table_has_no_finding_either_way(table: Table) -> None:
    assert findings_of(table) == ()
    assert findings_of(table, deep=True, read_data=True) == ()


def test_totals_are_those_of_all_groups(table: Table) -> None:
    path = change_latest(table, lambda entries: entries, total_record_count=1)
    (finding,) = [one for one in findings_of(table) if one.kind is FindingKind.TOTALS]
    assert (finding.path, finding.problem) == (path, "totalRecordCount is 1, but its files hold 54 rows")


def test_every_file_that_is_duplicate_adds_is_named_and_nothing_else_is(table: Table) -> None:
    path = change_latest(table, lambda entries: [*entries, entries[0], entries[-1]])
    doubles = [one for one in findings_of(table) if one.kind is FindingKind.MANIFEST and one.path == path]
    assert len(doubles) == 2
    assert all("is added twice" in one.problem for one in doubles)
    kinds = {one.kind for one in findings_of(table)}
    assert kinds <= {FindingKind.MANIFEST, FindingKind.ORPHAN, FindingKind.TOTALS}


def test_a_partition_has_one_bucket_count(table: Table) -> None:
    """Also where its buckets are looked at in different passes."""
    partition = min(entry.partition for entry in all_live(table))

    def rescaled(entries: Entries) -> Entries:
        return [
            replace(one, total_buckets=4) if (one.partition, one.bucket) == (partition, 1) else one
            for one in entries
        ]

    change_latest(table, rescaled)
    [finding] = [one for one in findings_of(table) if one.kind is FindingKind.BUCKETS]
    assert finding.path == f"{table.path}/p=a"
    assert "of 2 and of 4 buckets" in finding.problem


def test_a_manifest_that_cannot_be_read_hides_the_state_from_every_group(table: Table) -> None:
    store, snapshot = table._stores.manifests, table._stores.snapshots.latest()
    assert snapshot is not None
    file = store.data_manifests(snapshot)[0]
    table._stores.file_io.overwrite(table._stores.paths.manifest(file.file_name), b"no manifest")
    damage = [one for one in findings_of(table) if one.kind is not FindingKind.ORPHAN]
    assert damage
    assert {one.kind for one in damage} == {FindingKind.MANIFEST}


def test_a_group_does_not_read_what_the_survey_could_not(table: Table) -> None:
    store, snapshot = table._stores.manifests, table._stores.snapshots.latest()
    assert snapshot is not None
    files = store.data_manifests(snapshot)
    survey = Survey(lambda _: "")
    survey.take(store.paths.manifest(files[0].file_name), None)
    (group,) = survey.groups(9)
    reader = ManifestReader(store, Findings(), group)
    assert reader.entries(files[:1], "snapshot 2") is None
    assert reader.entries(files[1:], "snapshot 2") is not None


def test_files_that_are_missing_and_files_that_nobody_refers_to(table: Table) -> None:
    stores, snapshot = table._stores, table._stores.snapshots.latest()
    assert snapshot is not None
    entries = table._scanner.live_entries(snapshot).rows()
    lost = [f"{table.path}/p={p}/bucket-1/stray" for p in PARTITIONS]
    for path in lost:
        stores.file_io.overwrite(path, b"x")
    directory = check.bucket_directory(stores.paths, table.schema)
    gone = [
        f"{directory(one.partition, one.bucket)}/{one.file.file_name}" for one in (entries[0], entries[-1])
    ]
    for path in gone:
        stores.file_io.delete(path)
    found = findings_of(table)
    assert {one.path for one in found if one.kind is FindingKind.ORPHAN} == set(lost)
    assert {one.path for one in found if one.kind is FindingKind.DATA_FILE} == set(gone)


def test_a_bad_partition_hides_its_own_files_only(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    make = check.bucket_directory

    def broken(*given: Any) -> Callable[[bytes, int], str]:
        directory = make(*given)

        def place(partition: bytes, bucket: int) -> str:
            path = directory(partition, bucket)
            if "p=b" in path:
                raise CorruptDataError(table.path, "has a partition that is no row")
            return path

        return place

    monkeypatch.setattr(check, "bucket_directory", broken)
    found = findings_of(table)
    assert {one.kind for one in found if one.kind.is_damage} == {FindingKind.MANIFEST}
    orphans = [one.path for one in found if one.kind is FindingKind.ORPHAN]
    assert len(orphans) == 4
    assert all("/p=b/" in path for path in orphans)


def test_each_pass_has_the_entries_of_its_group(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    look = Lineage._expect

    def expect(lineage: Lineage, files: ManifestEntries, *others: Any, **names: Any) -> None:
        sizes.append(len(files))
        look(lineage, files, *others, **names)

    monkeypatch.setattr(Lineage, "_expect", expect)
    monkeypatch.setattr(check, "PASS_ENTRIES", 4)
    report = check.fsck(table._stores.file_io, table._stores.paths, now_ms=0)
    assert report.data_files == 12
    assert max(sizes) == 4  # the two files of each of two buckets
    assert sorted(sizes, reverse=True)[:3] == [4, 4, 4]


def test_a_commit_between_two_passes_is_no_damage(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    look, looks = Lineage.check, []

    def meddle(lineage: Lineage, ids: tuple[int, ...]) -> None:
        looks.append(ids)
        if len(looks) == 3:
            put(table, [{"p": "new", "k": 1, "v": 1}])
            table._stores.file_io.delete(table._stores.paths.snapshot(1))
        look(lineage, ids)

    monkeypatch.setattr(Lineage, "check", meddle)
    monkeypatch.setattr(check, "PASS_ENTRIES", 4)
    report = check.fsck(table._stores.file_io, table._stores.paths, now_ms=0)
    assert len(looks) == 1 + 1 + 3  # one pass that has too many entries, the survey, and three groups
    assert report.moved
    assert report.damage == ()


def entries_in(*places: tuple[bytes, int]) -> ManifestEntries:
    rows = (
        manifest_entry(data_file(f"{number}"), partition=partition, bucket=bucket)
        for number, (partition, bucket) in enumerate(places)
    )
    return ManifestEntries.from_rows(tuple(rows))


def test_groups_are_whole_directories_and_buckets_of_large_partitions() -> None:
    def place(partition: bytes) -> str:
        if partition == b"bad":
            raise CorruptDataError("t", "is no row")
        return partition.decode().lower()

    survey = Survey(place)
    counted = entries_in((b"x", 0), (b"large", 0), (b"large", 0), (b"large", 1), (b"bad", 0), (b"X", 0))
    assert len(survey.take("m", counted)) == 0
    survey.take("m", counted)  # a manifest counts once
    survey.take("other", entries_in((b"y", 0)))
    groups = survey.groups(2)
    members = [
        [(p, b) for p, b in ((e.partition, e.bucket) for e in group.take("m", counted).rows())]
        for group in groups
    ]
    assert members == [[(b"x", 0), (b"X", 0)], [(b"large", 0)] * 2, [(b"large", 1)], [(b"bad", 0)]]
    assert [group.has(b"large", 0) for group in groups] == [False, True, False, False]
    assert [group.has(b"large", 9) for group in groups] == [False] * 3 + [True]
    assert [group.has(b"unknown", 0) for group in groups] == [False] * 3 + [True]
    assert [group.without_reading("other") is None for group in groups] == [False] * 3 + [True]
    assert all(group.without_reading("new") is None for group in groups)
    masks = [group.request.partitions for group in groups]
    assert [mask is not None and mask([b"X", b"large", b"q"]).tolist() for mask in masks] == [
        [True, False, False], [False, True, False], [False, True, False], [False, True, True],
    ]  # fmt: skip


def test_one_pass_counts_each_manifest_once(table: Table) -> None:
    snapshot = table._stores.snapshots.latest()
    assert snapshot is not None
    files = table._stores.manifests.data_manifests(snapshot)
    one = OnePass(12)
    one.begin(files)
    one.begin(files)
    with pytest.raises(TooManyFilesError):
        OnePass(11).begin(files)


def test_counts_that_a_pass_could_not_make_are_not_compared() -> None:
    totals = Totals()
    for rows in (3, 4):
        totals.add("s1", "totalRecordCount", 7, rows)
        totals.add("s2", "totalRecordCount", 9, rows, before=1)
        totals.follow("s3", "s2", 20, 9, rows)
        totals.follow("s4", "s3", 20, 9, rows)
        totals.add("s5", "totalRecordCount", None, rows)
    totals.add("s6", "totalRecordCount", 7, 3)
    findings = Findings()
    totals.report(findings, 2)
    assert [(one.path, one.problem[:41]) for one in findings.items] == [
        ("s2", "totalRecordCount is 9, but its files hold"),
        ("s4", "totalRecordCount is 20, but the snapshot b"[:41]),
    ]


def test_doubles_of_one_identity_count_once() -> None:
    a, b = manifest_entry(data_file("a")), manifest_entry(data_file("b"))
    deleted = replace(a, kind=EntryKind.DELETE)
    rows = duplicate_adds(ManifestEntries.from_rows((b, deleted, a, b, a, a))).rows()
    assert [(row.kind, row.file.file_name) for row in rows] == [(EntryKind.ADD, "b"), (EntryKind.ADD, "a")]
    assert len(duplicate_adds(ManifestEntries.from_rows((a, b, deleted)))) == 0
