"""Scanning whole snapshots: of the golden tables, and of tables whose files vanish or are damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX
from lakecore.predicate.tree import Compare, Comparison
from lakecore.scan.filters import ScanFilter
from lakecore.scan.scanner import Scanner
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.table_stores import TableStores
from tests.support.golden import GoldenTable, golden_tables


def scanner_of(path: Path) -> Scanner:
    file_io, paths = LocalFileIO(), TablePaths(str(path))
    schemas = SchemaStore(file_io, paths)
    schema = schemas.latest()
    assert schema is not None
    return Scanner("db.t", TableStores(schema, file_io, paths))


def test_live_rows_add_up_to_the_totals_that_java_recorded() -> None:
    seen = 0
    for table in golden_tables()[::2]:
        scanner = scanner_of(table.path)
        for snapshot_id in scanner.stores.snapshots.list_ids()[-2:]:
            snapshot = scanner.stores.snapshots.load(snapshot_id)
            if snapshot.total_record_count is not None:
                found = scanner.live_entries(snapshot)
                assert int(found.row_count.sum()) == snapshot.total_record_count, table.name
                seen += 1
    assert seen > 100


def test_every_live_file_is_in_one_split() -> None:
    for table in golden_tables()[::3]:
        scanner = scanner_of(table.path)
        snapshot = scanner.stores.snapshots.latest()
        schema = scanner.stores.schema
        options = schema.options
        if snapshot is None or options.get("bucket") == "-2" or "data-evolution.enabled" in options:
            continue
        files = sorted(scanner.live_entries(snapshot).files(), key=lambda f: (f.file_name, f.schema_id))
        plan = scanner.plan(snapshot, schema)
        found = sorted((f for split in plan for f in split.files), key=lambda f: (f.file_name, f.schema_id))
        assert found == files, table.name


def test_postponed_buckets_are_not_part_of_the_table(golden: Callable[[str], GoldenTable]) -> None:
    scanner = scanner_of(golden("g1.a_pk_postpone").path)
    snapshot = scanner.stores.snapshots.latest()
    assert snapshot is not None
    assert set(scanner.live_entries(snapshot).bucket.tolist()) == {-2}
    assert len(scanner.plan(snapshot, scanner.stores.schema)) == 0


def test_filters_and_predicates_reach_the_plan(golden: Callable[[str], GoldenTable]) -> None:
    scanner = scanner_of(golden("g1.a_pk_dedup_b3_part").path)
    snapshot, schema = scanner.stores.snapshots.latest(), scanner.stores.schema
    everything = scanner.plan(snapshot, schema)
    one = scanner.plan(snapshot, schema, ScanFilter(buckets=frozenset([1])))
    assert {split.bucket for split in one} == {1}
    assert 0 < len(one) < len(everything)
    key = schema.trimmed_primary_keys[0]
    nowhere = Compare(key, Comparison.EQ, 1 << 30)
    assert len(scanner.plan(snapshot, schema, predicate=nowhere)) == 0
    with pytest.raises(InvalidInputError, match="'nope' is not a partition column"):
        scanner.live_entries(snapshot, ScanFilter(partitions=({"nope": 1},)))  # type: ignore[arg-type]


def test_no_snapshot_no_splits(golden: Callable[[str], GoldenTable]) -> None:
    scanner = scanner_of(golden("g1.a_life_empty").path)
    scanner.check(scanner.stores.schema)
    assert len(scanner.plan(None, scanner.stores.schema)) == 0


def test_index_files_are_listed(golden: Callable[[str], GoldenTable]) -> None:
    for name, kind in (
        ("g1.a_dv_append", DELETION_VECTORS),
        ("g1.a_old082_dv", DELETION_VECTORS),
        ("g1.a_pk_dynamic", HASH_INDEX),
    ):
        scanner = scanner_of(golden(name).path)
        snapshot = scanner.stores.snapshots.latest()
        assert snapshot is not None
        files = scanner.index_files(snapshot)
        assert {file.index_type for file in files} == {kind}
        deletions = [deletion for file in files for deletion in file.deletions]
        assert all(deletion.length > 0 for deletion in deletions)
        assert bool(deletions) is (kind == DELETION_VECTORS)
        assert sum(len(file.deletions) for file in files) == (
            sum(file.row_count for file in files) if deletions else 0
        )


def test_splits_name_the_deletion_vector_of_each_file(golden: Callable[[str], GoldenTable]) -> None:
    scanner = scanner_of(golden("g1.a_dv_append").path)
    snapshot = scanner.stores.snapshots.latest()
    assert snapshot is not None
    listed = {place.data_file: place for file in scanner.index_files(snapshot) for place in file.deletions}
    splits = list(scanner.plan(snapshot, scanner.stores.schema))
    found = {
        file.file_name: deletion.place
        for split in splits
        for file, deletion in zip(split.files, split.deletions, strict=True)
        if deletion is not None
    }
    assert found == listed


def test_files_of_some_columns_are_refused_whatever_the_options_say(
    golden: Callable[[str], GoldenTable], tmp_path: Path
) -> None:
    table = golden("g1.a_append_data_evolution").copy_to(tmp_path)
    path = table.path / "schema" / "schema-0"
    path.chmod(0o644)
    path.write_text(path.read_text().replace('"data-evolution.enabled" : "true"', '"x" : "y"'))
    scanner = scanner_of(table.path)
    schema = scanner.stores.schema
    scanner.check(schema)
    assert scanner.plan(scanner.stores.snapshots.load(1), schema).row_count == 30
    with pytest.raises(UnsupportedError, match=r"table db\.t: file data-\S+ holds the columns b only"):
        scanner.plan(scanner.stores.snapshots.load(2), schema)


@pytest.fixture
def table(golden: Callable[[str], GoldenTable], tmp_path: Path) -> Path:
    """A table of one's own."""
    return golden("g1.a_append_unaware").copy_to(tmp_path).path


def test_a_snapshot_that_expires_while_it_is_read(table: Path) -> None:
    scanner = scanner_of(table)
    snapshot = scanner.stores.snapshots.load(scanner.stores.snapshots.list_ids()[0])
    (table / "manifest" / snapshot.delta_manifest_list).unlink()
    (table / "snapshot" / f"snapshot-{snapshot.id}").unlink()
    with pytest.raises(NotFoundError, match=rf"snapshot {snapshot.id} .* expired while it was being read"):
        scanner.live_entries(snapshot)


def test_a_live_snapshot_that_lost_a_manifest(table: Path) -> None:
    scanner = scanner_of(table)
    snapshot = scanner.stores.snapshots.latest()
    assert snapshot is not None
    lost = scanner.stores.manifests.data_manifests(snapshot)[0].file_name
    (table / "manifest" / lost).unlink()
    with pytest.raises(
        CorruptDataError, match=rf"snapshot-{snapshot.id}: needs a file that does not exist: .*{lost}"
    ):
        scanner.live_entries(snapshot)


def test_a_cut_manifest_is_named(table: Path) -> None:
    scanner = scanner_of(table)
    snapshot = scanner.stores.snapshots.latest()
    assert snapshot is not None
    path = table / "manifest" / scanner.stores.manifests.data_manifests(snapshot)[0].file_name
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptDataError, match=path.name):
        scanner.plan(snapshot, scanner.stores.schema)
