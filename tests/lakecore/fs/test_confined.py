"""Storage with limits: what a record may name, and that nothing is changed through a link."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CorruptDataError, InvalidOptionError, LakeError, UnsupportedError
from lakecore.format.blob.descriptors import encode_reference
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.confined import ConfinedFileIO, ReferenceFileIO, service_files
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.read.columns.blob_values import resolve_references

OWN = AllowedPaths(
    warehouse="/wh",
    own="/wh/d.db/t",
    schema_roots=("/named",),
    declared=("/declared",),
    blob_roots=("/blobs",),
)
CHANGES = {
    "open_output": lambda storage, path: storage.open_output(path),
    "write_new": lambda storage, path: storage.write_new(path, b"x"),
    "publish": lambda storage, path: storage.publish(path, b"x"),
    "overwrite": lambda storage, path: storage.overwrite(path, b"x"),
    "delete": lambda storage, path: storage.delete(path),
    "move": lambda storage, path: storage.move(path, f"{Path(path).parent}/other"),
}


@pytest.mark.parametrize(
    "path", ["/wh/d.db/t/a", "/wh/d.db/t/bucket-0/a", "/wh/.lakecore/runs/x", "/declared/p=1/a"]
)
def test_what_a_table_changes(path: str) -> None:
    assert path.startswith(OWN.root_of_change(path))


@pytest.mark.parametrize(
    "path",
    [
        "/wh/d.db/tt/a", "/wh/d.db/a", "/wh/d.db/t/../u/a", "/wh/d.db/t/./a", "/wh/d.db/t//a", "/wh/d.db/t/..", "/etc/passwd",
        "/declared", "/declaredx/a", "/wh", "s3://b/k", "/wh/d.db/t/a\n", "/wh/d.db/t/\0", "/wh/.lakecorex/a", "wh/d.db/t/a",
        "/wh/d.db/t/" + "x/" * 3000,
    ],
)  # fmt: skip
def test_what_it_does_not(path: str) -> None:
    with pytest.raises(CorruptDataError):
        OWN.root_of_change(path)
    with pytest.raises(CorruptDataError):
        OWN.check_removable(path)


def test_a_root_that_only_the_schema_names_is_not_written_to() -> None:
    with pytest.raises(InvalidOptionError, match="external-roots"):
        OWN.root_of_change("/named/a")
    assert OWN.with_trusted_roots(["/named"]).root_of_change("/named/a") == "/named"


@pytest.mark.parametrize(
    "path", ["/wh/.lakecore/leases/t/1", "/wh/d.db/t/schema/schema-0", "/wh/d.db/t", "/wh/d.db/u/a"]
)
def test_no_record_asks_for_the_removal_of(path: str) -> None:
    with pytest.raises(CorruptDataError):
        OWN.check_removable(path)
    OWN.check_removable("/wh/d.db/t/branch/branch-b/schema/schema-0")


def test_reads_stay_in_the_warehouse_and_in_roots() -> None:
    assert OWN.root_of_read("/wh/d.db/other/a") == "/wh"
    for path in ("/named/a", "/etc/passwd", "/wh/../etc/passwd", "/blobs/a"):
        with pytest.raises(CorruptDataError):
            OWN.root_of_read(path)
    undeclared = AllowedPaths(warehouse="/wh", own="/wh/t", schema_roots=("/named",))
    assert undeclared.root_of_read("/named/a") == "/named"


def test_references_lead_to_declared_roots_whatever_the_schema_says() -> None:
    for path in ("/wh/d.db/other/a", "/declared/a", "/blobs/a"):
        assert path.startswith(OWN.root_of_reference(path))
    for path in ("/named/a", "/etc/passwd", "/blobs"):
        with pytest.raises(InvalidOptionError, match="blob-roots"):
            OWN.root_of_reference(path)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nothing_is_changed_through_a_link(change: str, depth: int, tmp_path: Path) -> None:
    """At any depth below the warehouse; the directory itself may be one."""
    real, outside = tmp_path / "real", tmp_path / "outside"
    (outside / "d.db" / "t").mkdir(parents=True)
    places = [("d.db",), ("d.db", "t"), ("d.db", "t", "sub")]
    parent = real.joinpath(*places[depth][:-1])
    parent.mkdir(parents=True)
    target = outside.joinpath(*places[depth][1:]) if depth < 2 else outside
    parent.joinpath(places[depth][-1]).symlink_to(outside)
    warehouse = tmp_path / "wh"
    warehouse.symlink_to(real)
    (target / "sub").mkdir(parents=True, exist_ok=True)
    (outside / "a").write_text("mine")
    storage = ConfinedFileIO(LocalFileIO(), AllowedPaths(warehouse=str(warehouse), own=f"{warehouse}/d.db/t"))
    before = sorted(os.walk(outside))
    with pytest.raises(UnsupportedError, match="symbolic link"):
        CHANGES[change](storage, f"{warehouse}/d.db/t/sub/a")
    assert sorted(os.walk(outside)) == before
    assert (outside / "a").read_text() == "mine"


def test_a_move_is_checked_at_both_ends() -> None:
    storage = ConfinedFileIO(
        MemoryFileIO("confined"), AllowedPaths(warehouse="memory://confined/wh", own="memory://confined/wh/t")
    )
    storage.inner.write_new("memory://confined/wh/t/a", b"x")
    storage.inner.write_new("memory://confined/wh/u/a", b"x")
    with pytest.raises(CorruptDataError):
        storage.move("memory://confined/wh/t/a", "memory://confined/wh/u/b")
    with pytest.raises(CorruptDataError):
        storage.move("memory://confined/wh/u/a", "memory://confined/wh/t/b")


def test_a_listing_shows_links_as_links_of_unknown_age(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("abc")
    for name, target in (
        ("to-dir", "dir"),
        ("to-file", "file"),
        ("to-nothing", "gone"),
        ("to-itself", "to-itself"),
    ):
        (tmp_path / name).symlink_to(tmp_path / target)
    found = {s.name: (s.is_dir, s.is_link, s.size, s.mtime_ms > 0) for s in LocalFileIO().list(str(tmp_path))}
    assert found == {
        "dir": (True, False, 0, True), "file": (False, False, 3, True), "to-dir": (False, True, 0, False),
        "to-file": (False, True, 3, False), "to-nothing": (False, True, 0, False), "to-itself": (False, True, 0, False),
    }  # fmt: skip


def test_blobs_are_not_read_through_links(tmp_path: Path) -> None:
    (tmp_path / "wh").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "wh" / "link").symlink_to(tmp_path / "secret")
    storage = ReferenceFileIO(
        LocalFileIO(), AllowedPaths(warehouse=str(tmp_path / "wh"), own=str(tmp_path / "wh" / "t"))
    )
    with pytest.raises(UnsupportedError, match="symbolic link"):
        storage.open_input(f"{tmp_path}/wh/link")


@pytest.mark.parametrize("limited", [True, False])
def test_references_of_rows_are_confined(limited: bool, tmp_path: Path) -> None:
    """Storage that no catalog has limited is limited to the warehouse of the table."""
    (tmp_path / "wh" / "d.db" / "other").mkdir(parents=True)
    for place in (tmp_path / "secret", tmp_path / "wh" / "d.db" / "other" / "a"):
        place.write_bytes(b"bytes")
    own, storage = f"{tmp_path}/wh/d.db/t", LocalFileIO()
    given = ConfinedFileIO(storage, AllowedPaths(warehouse=f"{tmp_path}/wh", own=own)) if limited else storage

    def read(path: str) -> object:
        column = pa.array([encode_reference(path, 1, 3)], pa.binary())
        return resolve_references(given, own, "b", column).to_pylist()

    assert read(f"{tmp_path}/wh/d.db/other/a") == [b"yte"]
    with pytest.raises(InvalidOptionError, match="blob-roots"):
        read(f"{tmp_path}/secret")
    with pytest.raises(CorruptDataError):
        read(f"{tmp_path}/wh/d.db/t/../../../secret")


def test_tables_of_a_catalog_are_confined_and_can_be_pickled(tmp_path: Path) -> None:
    lake = lakecore.load_catalog(str(tmp_path), **{"external-roots": "file:///ext", "blob-roots": "/blobs"})
    table = lake.create_table(
        "d.t", {"columns": ["k INT"], "options": {"data-file.external-paths": "file:///other"}}
    )
    storage = pickle.loads(pickle.dumps(table._stores.file_io))
    assert storage.allowed == AllowedPaths(
        warehouse=str(tmp_path),
        own=table.path,
        schema_roots=("/other",),
        declared=("/ext",),
        blob_roots=("/blobs",),
    )
    with pytest.raises(CorruptDataError):
        storage.delete(f"{tmp_path}/d.db/u/x")
    with pytest.raises(InvalidOptionError, match="external-roots"):
        lakecore.load_catalog(str(tmp_path), **{"external-roots": "ftp://x"})


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "LATEST"
    with open(path, "wb") as file:
        file.truncate((2 << 30) + 1)
    with pytest.raises(CorruptDataError, match="a file of its kind"):
        LocalFileIO().read(str(path))


def test_own_files_are_for_the_user_alone(tmp_path: Path) -> None:
    storage = service_files(LocalFileIO(sync=False), str(tmp_path))
    path, table_file = tmp_path / ".lakecore" / "runs" / "x", tmp_path / "d.db" / "x"
    for number, change in enumerate(("open_output", "write_new", "publish", "overwrite")):
        made = CHANGES[change](storage, f"{path}{number}")
        if change == "open_output":
            made.close()
        assert stat.S_IMODE(os.stat(f"{path}{number}").st_mode) == 0o600, change
    LocalFileIO(sync=False, service_mode=0o660).overwrite(f"{path}9", b"")
    assert stat.S_IMODE(os.stat(f"{path}9").st_mode) & 0o600 == 0o600
    LocalFileIO(sync=False).overwrite(str(table_file), b"")
    assert stat.S_IMODE(os.stat(table_file).st_mode) != 0o600
    with pytest.raises(LakeError):
        storage.overwrite(str(table_file), b"")


@pytest.mark.parametrize("read", ["open_input", "open_ranges", "read", "list", "stat"])
@pytest.mark.parametrize("place", ["file", "directory", "deep"])
def test_nothing_outside_of_the_table_is_read_through_a_link(read: str, place: str, tmp_path: Path) -> None:
    own, outside = tmp_path / "wh" / "d.db" / "t", tmp_path / "outside"
    (own / "real").mkdir(parents=True)
    (outside / "sub").mkdir(parents=True)
    for secret in (outside / "a", outside / "sub" / "a"):
        secret.write_text("secret")
    if place == "file":
        (own / "real" / "a").symlink_to(outside / ("sub" if read == "list" else "a"))
    else:
        (own / "link").symlink_to(outside)
    path = own / {"file": "real/a", "directory": "link/a", "deep": "link/sub/a"}[place]
    storage = ConfinedFileIO(LocalFileIO(), AllowedPaths(warehouse=f"{tmp_path}/wh", own=str(own)))
    for _ in range(2):  # what is remembered of the first look allows nothing
        with pytest.raises(UnsupportedError, match=r"symbolic link to .*/outside"):
            getattr(storage, read)(str(path))


def test_reads_follow_links_of_the_warehouse_of_the_table_and_within_the_table(tmp_path: Path) -> None:
    """A table that lies on another disk can be read; a change of it is refused."""
    real = tmp_path / "disk" / "t"
    (real / "bucket-0").mkdir(parents=True)
    (real / "bucket-0" / "a").write_text("x")
    (real / "bucket-1").symlink_to(real / "bucket-0")
    (tmp_path / "real-wh" / "d.db").mkdir(parents=True)
    (tmp_path / "real-wh" / "d.db" / "t").symlink_to(real)
    (tmp_path / "wh").symlink_to(tmp_path / "real-wh")
    own = f"{tmp_path}/wh/d.db/t"
    storage = ConfinedFileIO(LocalFileIO(), AllowedPaths(warehouse=f"{tmp_path}/wh", own=own))
    assert storage.read(f"{own}/bucket-0/a") == storage.read(f"{own}/bucket-1/a") == b"x"
    assert [status.name for status in storage.list(own)] == ["bucket-0", "bucket-1"]
    with pytest.raises(UnsupportedError, match="symbolic link"):
        storage.delete(f"{own}/bucket-0/a")
    other = ConfinedFileIO(
        LocalFileIO(), AllowedPaths(warehouse=f"{tmp_path}/wh", own=f"{tmp_path}/wh/d.db/u")
    )
    with pytest.raises(UnsupportedError, match="outside"):
        other.read(f"{own}/bucket-0/a")


def test_a_directory_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan of many files costs one look each, however deep they lie."""
    own = tmp_path / "wh" / "d.db" / "t"
    deep = own / "p=1" / "q=1" / "bucket-0"
    deep.mkdir(parents=True)
    for number in range(10):
        (deep / str(number)).write_text("x")
    storage = ConfinedFileIO(LocalFileIO(), AllowedPaths(warehouse=f"{tmp_path}/wh", own=str(own)))
    looks, lstat = [], os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **more: (looks.append(path), lstat(path, **more))[1])
    for number in range(10):
        storage.read(f"{deep}/{number}")
    assert len(looks) == 10 + 3
    again = pickle.loads(pickle.dumps(storage))
    again.read(f"{deep}/0")
    assert again == storage
    assert len(looks) == 10 + 3 + 1 + 3


def test_a_table_whose_schema_is_a_link_to_elsewhere_is_not_opened(tmp_path: Path) -> None:
    lake = lakecore.load_catalog(str(tmp_path / "wh"), create_warehouse=True)
    schemas = Path(lake.create_table("d.t", {"columns": ["k INT"]}).path) / "schema"
    schemas.rename(tmp_path / "schema")
    schemas.symlink_to(tmp_path / "schema")
    with pytest.raises(UnsupportedError, match="symbolic link"):
        lake.load_table("d.t")
