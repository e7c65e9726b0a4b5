"""The manifest store: what it writes it reads, rolled and described; what does not add up is damage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import CorruptDataError, InvalidOptionError, NotFoundError, UnavailableError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.binary_row import encode_row
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.golden import golden_tables


@pytest.fixture
def file_io() -> MemoryFileIO:
    io = MemoryFileIO("manifests")
    io.clear()
    return io


def store(file_io: MemoryFileIO, **options: str) -> ManifestStore:
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = table_schema(
        "p INT, k INT NOT NULL", primary_keys=("p", "k"), partition_keys=("p",), options=raw
    )
    return ManifestStore(file_io, TablePaths("memory://manifests/t"), schema, FakeClock())


def entries(manifests: ManifestStore, count: int) -> ManifestEntries:
    kind = manifests.schema.partition_type
    return ManifestEntries.from_rows(
        [
            manifest_entry(data_file(f"f{i}"), partition=encode_row((i,), kind), bucket=i % 2)
            for i in range(count)
        ]
    )


@pytest.mark.parametrize("kind", ["avro", "parquet", "orc"])
def test_written_entries_are_read_back(file_io: MemoryFileIO, kind: str) -> None:
    manifests = store(file_io, manifest__format=kind)
    wanted = entries(manifests, 9)
    files = manifests.write(wanted)
    assert [file.num_added_files for file in files] == [9]
    assert files[0].file_size == len(file_io.read(manifests.paths.manifest(files[0].file_name)))
    assert manifests.read(files).rows() == wanted.rows()
    name, size = manifests.write_list(files)
    assert size == len(file_io.read(manifests.paths.manifest(name)))
    assert manifests.read_list(name) == files


def test_manifests_roll_at_the_target_size(file_io: MemoryFileIO) -> None:
    manifests = store(file_io, manifest__target_file_size="2 kb")
    wanted = entries(manifests, 3000)
    files = manifests.write(wanted)
    assert len(files) > 2
    assert len({file.file_name for file in files}) == len(files)
    assert [file.num_added_files for file in files] == [len(manifests.read([file])) for file in files]
    assert manifests.read(files).names() == wanted.names()


def test_many_manifests_are_read_in_their_order(file_io: MemoryFileIO) -> None:
    manifests = store(file_io)
    wanted = entries(manifests, 60)
    files = [manifests.write(wanted.select([i]))[0] for i in range(60)]
    assert manifests.read(files).rows() == wanted.rows()
    manifests.delete(files[40].file_name)
    with pytest.raises(NotFoundError, match=files[40].file_name):
        manifests.read(files)


def test_no_entries_make_no_manifest_and_an_empty_list(file_io: MemoryFileIO) -> None:
    manifests = store(file_io)
    assert manifests.write(ManifestEntries.empty()) == ()
    name, _ = manifests.write_list(())
    assert manifests.read_list(name) == ()
    assert len(manifests.read(())) == 0


def test_a_manifest_that_holds_other_counts_is_named(file_io: MemoryFileIO) -> None:
    manifests = store(file_io)
    good, bad = (manifests.write(entries(manifests, 3))[0] for _ in range(2))
    bad = replace(bad, num_added_files=4)
    for files in ([bad], [good, bad]):
        with pytest.raises(CorruptDataError, match=bad.file_name + r".* 3 entries, .* records 4"):
            manifests.read(files)


def test_missing_files_are_named(file_io: MemoryFileIO) -> None:
    manifests = store(file_io)
    with pytest.raises(NotFoundError, match="manifest-list-x"):
        manifests.read_list("manifest-list-x")
    file = manifests.write(entries(manifests, 1))[0]
    manifests.delete(file.file_name)
    with pytest.raises(NotFoundError, match=file.file_name):
        manifests.read([file])


def test_an_unknown_format_is_refused(file_io: MemoryFileIO) -> None:
    with pytest.raises(InvalidOptionError, match=r"manifest\.format='csv'"):
        store(file_io, manifest__format="csv").write(entries(store(file_io), 1))


def test_java_describes_manifests_the_same_way() -> None:
    """Every line of the latest lists of the golden tables, made again from the entries."""
    from lakecore.fs.local import LocalFileIO
    from lakecore.metadata.manifest.manifest_stats import describe_manifest
    from lakecore.store.schemas import SchemaStore

    seen = 0
    for table in golden_tables()[::3]:
        paths = TablePaths(str(table.path))
        schema = SchemaStore(LocalFileIO(), paths).latest()
        snapshot = SnapshotStore(LocalFileIO(), paths).latest()
        if schema is None or snapshot is None or "old0" in table.table:
            continue
        manifests = ManifestStore(LocalFileIO(), paths, schema)
        for file in manifests.data_manifests(snapshot):
            found = manifests.read([file])
            again = describe_manifest(found, file.file_name, file.file_size, schema.partition_type)
            assert again == file
            seen += 1
    assert seen > 100


def test_of_a_write_that_fails_half_way_nothing_stays(file_io: MemoryFileIO) -> None:
    faulty = FaultyFileIO(file_io, 2)
    manifests = replace(store(file_io, manifest__target_file_size="2 kb"), file_io=faulty)
    with pytest.raises(UnavailableError):
        manifests.write(entries(manifests, 3000))
    assert file_io.list(manifests.paths.manifest_dir) == []
