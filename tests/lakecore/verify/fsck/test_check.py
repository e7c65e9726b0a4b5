"""fsck: silent on tables of Java Paimon, as its own check is; each kind of damage is found and named."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.errors import NotFoundError, UnavailableError
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.verify.fsck.check import FindingKind, FsckReport, fsck
from tests.support.fsck_ways import check_both_ways
from tests.support.golden import GoldenTable, golden_table, golden_tables

HOUR = 3_600_000
SOME = (
    "a_append_part", "a_pk_dedup_b1", "a_pk_dedup_b3_part", "a_pk_thin_composite", "a_dv_pk", "a_dv_append_idxdir",
    "a_life_cl_decoupled", "a_life_empty", "a_life_expired_tagged", "a_life_rolled_back", "a_man_orc_zstd",
    "a_meta_branch", "a_meta_stats_file", "a_old082_pk", "a_pk_composite", "a_pk_dynamic", "a_pk_postpone",
    "a_idx_files", "a_part_special", "a_evo_pk_compact", "a_types_pk_orc", "a_fmt_paths", "a_types_extreme",
)  # fmt: skip

IN_GROUPS = (
    "a_pk_dedup_b3_part",
    "a_meta_branch",
    "a_dv_append_idxdir",
    "a_pk_dynamic",
    "a_life_cl_decoupled",
)


def check(path: Path, *, deep: bool = False, read_data: bool = False, both_ways: bool = False) -> FsckReport:
    now = max((int(file.stat().st_mtime * 1000) for file in path.rglob("*")), default=0) + 2 * HOUR
    way = check_both_ways if both_ways else fsck
    return way(LocalFileIO(), TablePaths(str(path)), now_ms=now, deep=deep, read_data=read_data)


def compare_with_java(table: GoldenTable, *, both_ways: bool = True) -> None:
    for deep in (False, True):
        report = check(table.path, deep=deep, read_data=deep, both_ways=both_ways)
        assert report.damage == ()
        orphans = sorted(f.path.removeprefix(f"{table.path}/") for f in report.findings)
        assert orphans == sorted(table.facts["fsck"]["orphans"])
        assert report.files_read == (report.data_files if deep else 0)
        assert report.snapshots >= len(table.facts["snapshots"])
        assert not report.moved


@pytest.mark.parametrize("name", SOME)
def test_some_tables_of_java_are_clean(name: str) -> None:
    compare_with_java(golden_table(f"g1.{name}"), both_ways=name in IN_GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("table", golden_tables(), ids=lambda table: table.name)
def test_every_table_of_java_is_clean(table: GoldenTable) -> None:
    compare_with_java(table)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A primary-key table with several levels and snapshots, to damage."""
    return golden_table("g1.a_pk_dedup_b1").copy_to(tmp_path).path


def newest(path: Path) -> int:
    return int((path / "snapshot" / "LATEST").read_text())


def entries_of(path: Path, snapshot_id: int) -> list[ManifestEntry]:
    """Live files."""
    store, snapshot = open_table(path, snapshot_id)
    return live_entries(store.read(store.data_manifests(snapshot))).rows()


def open_table(path: Path, snapshot_id: int) -> tuple[ManifestStore, Snapshot]:
    paths = TablePaths(str(path))
    schema = SchemaStore(LocalFileIO(), paths).latest()
    assert schema is not None
    return ManifestStore(LocalFileIO(), paths, schema), SnapshotStore(LocalFileIO(), paths).load(snapshot_id)


def data_file(path: Path, snapshot_id: int | None = None, only_there: bool = False) -> Path:
    """A live file; with `only_there`, one that the newest snapshot does not need."""
    found = {e.file.file_name for e in entries_of(path, snapshot_id or newest(path))}
    if only_there:
        found -= {e.file.file_name for e in entries_of(path, newest(path))}
    return path / "bucket-0" / min(found)


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def kinds(report: FsckReport) -> set[FindingKind]:
    return {finding.kind for finding in report.findings}


def expect(table: Path, kind: FindingKind, path: Path | str, problem: str, **mode: bool) -> FsckReport:
    report = check(table, both_ways=True, **mode)
    found = [finding for finding in report.findings if finding.kind is kind and finding.path == str(path)]
    assert any(problem in finding.problem for finding in found), report.findings
    return report


@pytest.mark.parametrize("older", [False, True], ids=["latest", "older snapshot"])
def test_a_missing_data_file(table: Path, older: bool) -> None:
    path = data_file(table, 2 if older else None, only_there=older)
    path.unlink()
    report = expect(table, FindingKind.DATA_FILE, path, "missing (needed by snapshot")
    assert len(report.damage) == 1
    assert check(table, deep=True, read_data=True).damage == report.damage


def test_a_truncated_data_file(table: Path) -> None:
    path = data_file(table)
    path.write_bytes(path.read_bytes()[:-40])
    report = expect(table, FindingKind.DATA_FILE, path, "bytes, but its description says", read_data=True)
    assert len(report.findings) == 1


def test_a_grown_data_file(table: Path) -> None:
    path = data_file(table)
    path.write_bytes(path.read_bytes() + b"x")
    expect(table, FindingKind.DATA_FILE, path, "bytes, but its description says")


def test_damage_inside_a_data_file_needs_its_data_to_be_read(table: Path) -> None:
    path = data_file(table)
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(bytes(data))
    assert check(table).findings == ()
    assert {FindingKind.BYTES} <= kinds(check(table, read_data=True))


def test_swapped_hints(table: Path) -> None:
    latest, earliest = table / "snapshot" / "LATEST", table / "snapshot" / "EARLIEST"
    texts = latest.read_text(), earliest.read_text()
    latest.write_text(texts[1])
    earliest.write_text(texts[0])
    report = expect(table, FindingKind.HINT, latest, f"says '{texts[1]}', but the snapshot is {texts[0]}")
    expect(table, FindingKind.HINT, earliest, f"says '{texts[0]}', but the snapshot is {texts[1]}")
    assert report.damage == ()
    latest.unlink()
    expect(table, FindingKind.HINT, latest, "missing")
    latest.write_text("no number")
    expect(table, FindingKind.HINT, latest, "says 'no number'")


def test_a_missing_manifest_or_list(table: Path) -> None:
    store, snapshot = open_table(table, newest(table))
    manifest = table / "manifest" / store.data_manifests(snapshot)[0].file_name
    kept = manifest.read_bytes()
    manifest.unlink()
    expect(table, FindingKind.MANIFEST, manifest, "missing (needed by snapshot")
    manifest.write_bytes(kept[:-10])
    expect(table, FindingKind.MANIFEST, manifest, "bytes, but its description says")
    manifest.write_bytes(kept[:50] + bytes(len(kept) - 50))
    expect(table, FindingKind.MANIFEST, manifest, "needed by snapshot")
    manifest.write_bytes(kept)
    listed = table / "manifest" / snapshot.delta_manifest_list
    listed.unlink()
    expect(table, FindingKind.MANIFEST, listed, "missing (needed by snapshot")


def test_damaged_snapshots(table: Path) -> None:
    third = table / "snapshot" / "snapshot-3"
    kept = third.read_text()
    third.write_text(kept[:40])
    expect(table, FindingKind.SNAPSHOT, third, "not a snapshot")
    third.write_text(kept)
    change_json(third, id=4)
    expect(table, FindingKind.SNAPSHOT, third, "says that it is snapshot 4")
    third.unlink()
    expect(
        table,
        FindingKind.SNAPSHOT,
        table / "snapshot" / "snapshot-4",
        "snapshots 3 to 3 are missing before it",
    )


@pytest.mark.parametrize("snapshot_id", [1, 4, None], ids=["first", "middle", "latest"])
@pytest.mark.parametrize("name", ["totalRecordCount", "deltaRecordCount"])
def test_wrong_totals(table: Path, snapshot_id: int | None, name: str) -> None:
    path = table / "snapshot" / f"snapshot-{snapshot_id or newest(table)}"
    right = json.loads(path.read_text())[name]
    change_json(path, **{name: right + 1})
    expect(table, FindingKind.TOTALS, path, f"{name} is {right + 1}, but its files hold")


def test_a_missing_or_damaged_schema(table: Path) -> None:
    schema = table / "schema" / "schema-0"
    text = schema.read_text()
    (table / "schema" / "schema-1").write_text(text.replace('"id" : 0,\n', '"id" : 1,\n', 1))
    schema.write_text("{")
    expect(table, FindingKind.SCHEMA, schema, "not a schema")
    schema.unlink()
    expect(table, FindingKind.SCHEMA, schema, "missing (needed by snapshot")


def test_orphans_are_reported_with_their_age(table: Path) -> None:
    strays = [
        table / "bucket-0" / "data-stray.parquet", table / "bucket-7" / "data-stray.parquet", table / "manifest" / "m",
        table / "snapshot" / ".snapshot-9.tmp", table / "stray", table / "index" / "index-stray",
    ]  # fmt: skip
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"abc")
    report = check(table)
    assert {finding.path for finding in report.findings} == {str(stray) for stray in strays}
    assert all("3 bytes and is 2.0 hours old" in finding.problem for finding in report.findings)
    assert report.damage == ()


def rewrite(table: Path, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
    """Give the latest snapshot other entries: its live files, changed, as one new manifest."""
    snapshot_id = newest(table)
    store, snapshot = open_table(table, snapshot_id)
    files = store.write(ManifestEntries.from_rows(change(entries_of(table, snapshot_id))))
    base, size = store.write_list(files)
    empty, empty_size = store.write_list([])
    changed = replace(
        snapshot,
        base_manifest_list=base,
        base_manifest_list_size=size,
        delta_manifest_list=empty,
        delta_manifest_list_size=empty_size,
        delta_record_count=0,
    )
    (table / "snapshot" / f"snapshot-{snapshot_id}").write_text(changed.to_json())


def described(**values: object) -> Callable[[list[ManifestEntry]], list[ManifestEntry]]:
    """The largest file with other facts."""

    def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        largest = max(entries, key=lambda entry: entry.file.row_count)
        others = [entry for entry in entries if entry is not largest]
        return [*others, replace(largest, file=replace(largest.file, **values))]

    return change


def expire_all_but_newest(table: Path) -> None:
    """Earlier snapshots describe the same files as they are, and the first description of a file counts."""
    for old in (table / "snapshot").glob("snapshot-*"):
        if old.name != f"snapshot-{newest(table)}":
            old.unlink()


@pytest.mark.parametrize(
    ("values", "kind", "problem"),
    [
        ({"row_count": 1}, FindingKind.ROWS, "row count is "),
        ({"file_size": 1}, FindingKind.DATA_FILE, "its description says 1 "),
        ({"delete_row_count": 1000}, FindingKind.ROWS, "delete row count is "),
        ({"min_sequence_number": -1}, FindingKind.ROWS, "range of sequence numbers is "),
        ({"max_sequence_number": 1 << 40}, FindingKind.ROWS, "range of sequence numbers is "),
    ],
    ids=["rows", "size", "deletes", "first sequence", "last sequence"],
)
def test_false_descriptions(table: Path, values: dict[str, object], kind: FindingKind, problem: str) -> None:
    rewrite(table, described(**values))
    found = [finding for finding in check(table, read_data=True).findings if finding.kind is kind]
    assert len(found) == 1
    assert problem in found[0].problem
    assert Path(found[0].path).parent == table / "bucket-0"


def test_bounds_narrower_than_the_rows(table: Path) -> None:
    entries = entries_of(table, newest(table))
    low = max(entries, key=lambda entry: entry.file.row_count).file
    rewrite(table, described(min_key=low.max_key))
    expire_all_but_newest(table)
    expect(table, FindingKind.KEY_ORDER, table / "bucket-0" / low.file_name, "outside", read_data=True)


def test_statistics_that_would_hide_rows(table: Path) -> None:
    file = max(entries_of(table, newest(table)), key=lambda entry: entry.file.row_count).file
    stats = file.value_stats
    narrow = replace(stats, max_values=stats.min_values, null_counts=(7, *stats.null_counts[1:]))
    rewrite(table, described(value_stats=narrow, key_stats=replace(file.key_stats, null_counts=(1,))))
    assert not [f for f in check(table, read_data=True).findings if "statistics" in f.problem]
    found = [f for f in check(table, deep=True, read_data=True).findings if "statistics" in f.problem]
    assert {(f.kind, Path(f.path).name) for f in found} == {(FindingKind.COLUMN_STATISTICS, file.file_name)}
    texts = "\n".join(f.problem for f in found)
    assert "count 7 nulls, but the column has 0" in texts
    assert "count 1 nulls, but the column has 0" in texts
    assert "its values are" in texts


def test_overlap_within_a_level(table: Path) -> None:
    def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        copies = [replace(entries[0].file, file_name=name, level=5) for name in ("one", "other")]
        return [*entries, *(replace(entries[0], file=copy) for copy in copies)]

    rewrite(table, change)
    path = table / "snapshot" / f"snapshot-{newest(table)}"
    expect(table, FindingKind.LEVELS, path, "overlap on level 5 of bucket 0")


def test_a_file_added_twice_or_deleted_without_being_there(table: Path) -> None:
    path = table / "snapshot" / f"snapshot-{newest(table)}"
    rewrite(table, lambda entries: [*entries, entries[0]])
    expect(table, FindingKind.MANIFEST, path, "added twice")
    stray = replace(entries_of(table, newest(table) - 1)[0], kind=EntryKind.DELETE)
    gone = replace(stray, file=replace(stray.file, file_name="never-there"))
    store, snapshot = open_table(table, newest(table))
    delta, size = store.write_list(store.write(ManifestEntries.from_rows([gone])))
    base, base_size = store.write_list([])
    changed = replace(
        snapshot,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=size,
    )
    path.write_text(changed.to_json())
    expect(table, FindingKind.MANIFEST, path, "deletes never-there, which it does not have")


def test_files_of_tags_and_branches(tmp_path: Path) -> None:
    tagged = golden_table("g1.a_life_expired_tagged").copy_to(tmp_path).path
    tag = min((tagged / "tag").iterdir())
    snapshot = Snapshot.from_json(tag.read_text(), str(tag))
    lost = tagged / "manifest" / snapshot.delta_manifest_list
    lost.unlink()
    expect(tagged, FindingKind.MANIFEST, lost, f"missing (needed by tag {tag.name.removeprefix('tag-')}")
    branched = golden_table("g1.a_meta_branch").copy_to(tmp_path).path
    branch = max((branched / "branch").iterdir())
    first = min((branch / "snapshot").glob("snapshot-*"))
    change_json(first, totalRecordCount=-5)
    expect(branched, FindingKind.TOTALS, first, "totalRecordCount is -5", deep=True)


@pytest.mark.parametrize(
    ("name", "pattern", "kind"),
    [
        ("a_dv_pk", "index/index-*", FindingKind.INDEX_FILE),
        ("a_dv_append_idxdir", "bucket-0/index-*", FindingKind.INDEX_FILE),
        ("a_pk_dynamic", "index/index-*", FindingKind.INDEX_FILE),
        ("a_meta_stats_file", "statistics/*", FindingKind.STATISTICS),
        ("a_idx_files", "bucket-0/*.index", FindingKind.DATA_FILE),
        ("a_cl_input", "bucket-*/changelog-*", FindingKind.DATA_FILE),
        ("a_life_cl_decoupled", "bucket-*/changelog-*", FindingKind.DATA_FILE),
    ],
)
def test_other_files_of_a_snapshot(tmp_path: Path, name: str, pattern: str, kind: FindingKind) -> None:
    table = golden_table(f"g1.{name}").copy_to(tmp_path).path
    missing = max(table.glob(pattern))
    missing.unlink()
    report = check(table)
    found = [finding for finding in report.damage if "missing (needed by" in finding.problem]
    assert [(finding.kind, Path(finding.path).name) for finding in found] == [(kind, missing.name)]


def test_a_snapshot_that_expires_meanwhile_is_told(table: Path) -> None:
    class Expiring(LocalFileIO):
        def list(self, path: str):  # type: ignore[no-untyped-def]
            found = super().list(path)
            if path.endswith("/bucket-0"):
                (table / "snapshot" / "snapshot-1").unlink(missing_ok=True)
            return found

    report = fsck(Expiring(), TablePaths(str(table)), now_ms=0)
    assert report.moved
    assert pickle.loads(pickle.dumps(report)) == report


def test_what_is_no_table_and_storage_that_fails(tmp_path: Path, table: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no table at"):
        check(tmp_path / "nothing")

    class Failing(LocalFileIO):
        def read(self, path: str) -> bytes:
            if "/manifest/" in path:
                raise UnavailableError(f"{path}: no answer")
            return super().read(path)

    with pytest.raises(UnavailableError):
        fsck(Failing(), TablePaths(str(table)), now_ms=0)


def test_a_snapshot_that_is_not_built_on_the_one_before_it(table: Path) -> None:
    """Another writer replaced the one before it, and what that one changed is lost: the counts do not go on."""
    last = newest(table)
    before = table / f"snapshot/snapshot-{last - 1}"
    raw = json.loads(before.read_text())
    earlier = json.loads((table / f"snapshot/snapshot-{last - 2}").read_text())
    rival = earlier | {"id": last - 1, "commitUser": "rival", "deltaRecordCount": 0, "commitKind": "APPEND"}
    store = open_table(table, last - 1)[0]
    base = store.write_list(
        (*store.read_list(earlier["baseManifestList"]), *store.read_list(earlier["deltaManifestList"]))
    )
    rival |= {"baseManifestList": base[0], "baseManifestListSize": base[1]}
    delta = store.write_list(())
    rival |= {"deltaManifestList": delta[0], "deltaManifestListSize": delta[1]}
    rival.pop("changelogManifestList", None)
    assert rival["totalRecordCount"] != raw["totalRecordCount"]
    before.write_text(json.dumps(rival))
    for deep in (False, True):
        found = [f for f in check(table, deep=deep).findings if f.kind is FindingKind.TOTALS]
        assert [Path(f.path).name for f in found] == [f"snapshot-{last}"]
        assert "the changes of the snapshot before are missing in it" in found[0].problem
