"""Every `FileIO` must pass these tests: local disk, memory, the fault injector, and each store over a server."""

from __future__ import annotations

import errno
import os
import pickle
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.errors import AlreadyExistsError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.resolve import file_io_for
from tests.support.azurite import Azurite, azurite
from tests.support.fault_fs import FaultyFileIO
from tests.support.gcs_server import GcsServer, gcs_server
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.oss_server import OssServer, cosn_server, obs_server, oss_server
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def azure() -> Iterator[Azurite]:
    with azurite() as server:
        yield server


@pytest.fixture(scope="module")
def gcs() -> Iterator[GcsServer]:
    with gcs_server() as server:
        yield server


@pytest.fixture(scope="module")
def oss() -> Iterator[OssServer]:
    with oss_server() as server:
        yield server


@pytest.fixture(scope="module")
def cosn() -> Iterator[OssServer]:
    with cosn_server() as server:
        yield server


@pytest.fixture(scope="module")
def obs() -> Iterator[OssServer]:
    with obs_server() as server:
        yield server


MANY_WRITERS = [
    "local",
    "memory",
    "faulty",
    "s3",
    "azure",
    "gcs",
    pytest.param("hdfs", marks=pytest.mark.slow),
]
ONE_WRITER = ["oss", "cosn", "obs"]


@pytest.fixture(params=[*MANY_WRITERS, *ONE_WRITER])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileIO, str]:
    """Storage, and an empty directory in it."""
    match request.param:
        case "local":
            return LocalFileIO(), f"{tmp_path}/root"
        case "memory":
            return MemoryFileIO(uuid.uuid4().hex), "memory://test/root"
        case "faulty":
            return FaultyFileIO(MemoryFileIO(uuid.uuid4().hex)), "memory://test/root"
    server: S3Server | Azurite | GcsServer | OssServer | HdfsCluster = request.getfixturevalue(request.param)
    root = f"{server.root}/{uuid.uuid4().hex}"
    return file_io_for(root, server.options), root


Place = tuple[FileIO, str]


def test_written_files_read_back(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/a/b/file", b"hello")
    assert storage.read(f"{root}/a/b/file") == b"hello"
    with storage.open_input(f"{root}/a/b/file") as file:
        assert file.size() == 5
        file.seek(1)
        assert file.read(3) == b"ell"
    with storage.open_ranges(f"{root}/a/b/file") as ranges:
        assert ranges.size() == 5
        assert [ranges.read_at(n, at) for n, at in ((3, 1), (9, 3), (0, 0), (2, 5))] == [
            b"ell",
            b"lo",
            b"",
            b"",
        ]


def test_missing_files_are_not_found(place: Place) -> None:
    storage, root = place
    with pytest.raises(NotFoundError, match="nothing"):
        storage.read(f"{root}/nothing")
    with pytest.raises(NotFoundError, match="nothing"):
        storage.open_input(f"{root}/nothing")
    with pytest.raises(NotFoundError, match="nothing"):
        storage.open_ranges(f"{root}/nothing")
    assert storage.stat(f"{root}/nothing") is None
    assert storage.list(f"{root}/nothing") == []
    storage.delete(f"{root}/nothing")


def test_write_new_refuses_a_name_that_is_taken(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/file", b"first")
    with pytest.raises(AlreadyExistsError, match="file"):
        storage.write_new(f"{root}/file", b"second")
    assert storage.read(f"{root}/file") == b"first"


def test_publish_happens_once(place: Place) -> None:
    storage, root = place
    assert storage.publish(f"{root}/x/snapshot-1", b"one")
    assert not storage.publish(f"{root}/x/snapshot-1", b"two")
    assert storage.read(f"{root}/x/snapshot-1") == b"one"
    assert [status.name for status in storage.list(f"{root}/x")] == ["snapshot-1"]


@pytest.mark.parametrize("place", MANY_WRITERS, indirect=True)
def test_of_many_publishers_one_wins(place: Place) -> None:
    storage, root = place
    won: list[int] = []

    def publish(number: int) -> None:
        if storage.publish(f"{root}/x/snapshot-1", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [b"%d" % number for number in won] == [storage.read(f"{root}/x/snapshot-1")]


def test_overwrite_replaces(place: Place) -> None:
    storage, root = place
    storage.overwrite(f"{root}/LATEST", b"1")
    storage.overwrite(f"{root}/LATEST", b"12")
    assert storage.read(f"{root}/LATEST") == b"12"
    assert [status.name for status in storage.list(root)] == ["LATEST"]


def test_list_and_stat_tell_files_from_directories(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/b", b"12")
    storage.write_new(f"{root}/a/c", b"123")
    storage.write_new(f"{root}/dt=a%2Fb c/ü", b"")
    found = [(status.path, status.is_dir, status.size) for status in storage.list(root)]
    assert found == [(f"{root}/a", True, 0), (f"{root}/b", False, 2), (f"{root}/dt=a%2Fb c", True, 0)]
    assert storage.read(f"{root}/dt=a%2Fb c/ü") == b""
    file, directory = storage.stat(f"{root}/a/c"), storage.stat(f"{root}/a")
    assert file is not None
    assert (file.size, file.is_dir) == (3, False)
    assert file.mtime_ms > 1_500_000_000_000
    assert directory is not None
    assert directory.is_dir


def test_delete_removes_a_file(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/a/file", b"")
    storage.delete(f"{root}/a/file")
    assert storage.stat(f"{root}/a/file") is None


def test_a_moved_file_has_the_new_name_only(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/a/file", b"abc")
    storage.move(f"{root}/a/file", f"{root}/new/directory/name")
    assert storage.read(f"{root}/new/directory/name") == b"abc"
    assert storage.stat(f"{root}/a/file") is None
    storage.write_new(f"{root}/a/file", b"other")
    with pytest.raises(AlreadyExistsError):
        storage.move(f"{root}/a/file", f"{root}/new/directory/name")
    with pytest.raises(NotFoundError):
        storage.move(f"{root}/a/missing", f"{root}/a/somewhere")
    assert storage.read(f"{root}/new/directory/name") == b"abc"
    assert storage.read(f"{root}/a/file") == b"other"


def test_a_move_to_another_disk_is_a_copy_and_a_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def linked(source: str, target: str, **more: Any) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target, **more)

    monkeypatch.setattr(os, "link", linked)
    storage, root = LocalFileIO(), str(tmp_path)
    storage.write_new(f"{root}/a/file", b"abc")
    storage.move(f"{root}/a/file", f"{root}/b/file")
    assert [status.name for status in storage.list(f"{root}/b")] == ["file"]
    assert storage.read(f"{root}/b/file") == b"abc"
    assert storage.list(f"{root}/a") == []
    storage.write_new(f"{root}/a/file", b"other")
    with pytest.raises(AlreadyExistsError):
        storage.move(f"{root}/a/file", f"{root}/b/file")
    with pytest.raises(NotFoundError):
        storage.move(f"{root}/a/missing", f"{root}/b/other")
    assert [storage.read(f"{root}/{name}/file") for name in "ab"] == [b"other", b"abc"]


def test_an_empty_directory_is_listed_until_it_is_removed(place: Place) -> None:
    storage, root = place
    assert storage.make_directory(f"{root}/a/b")
    assert not storage.make_directory(f"{root}/a/b")
    assert [(s.name, s.is_dir) for s in storage.list(f"{root}/a")] == [("b", True)]
    assert storage.list(f"{root}/a/b") == []
    found = storage.stat(f"{root}/a/b")
    assert found is not None
    assert found.is_dir
    storage.remove_directory(f"{root}/a/b")
    storage.remove_directory(f"{root}/a/b")
    assert storage.stat(f"{root}/a/b") is None
    storage.write_new(f"{root}/file", b"x")
    assert not storage.make_directory(f"{root}/file")


def test_a_directory_moves_in_one_step_or_not_at_all(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/old/x/1", b"one")
    storage.write_new(f"{root}/old/2", b"two")
    storage.write_new(f"{root}/taken/3", b"three")
    if not storage.move_directory(f"{root}/old", f"{root}/new/place"):
        assert root.startswith(("s3://", "abfs://", "gs://", "oss://", "cosn://", "obs://"))
        assert storage.read(f"{root}/old/x/1") == b"one"
        assert storage.list(f"{root}/new") == []
        return
    assert (storage.read(f"{root}/new/place/x/1"), storage.read(f"{root}/new/place/2")) == (b"one", b"two")
    assert storage.stat(f"{root}/old") is None
    with pytest.raises(AlreadyExistsError):
        storage.move_directory(f"{root}/new/place", f"{root}/taken")
    with pytest.raises(NotFoundError):
        storage.move_directory(f"{root}/old", f"{root}/newer")
    assert storage.read(f"{root}/taken/3") == b"three"


def test_output_counts_bytes_and_appears_when_closed(place: Place) -> None:
    storage, root = place
    with storage.open_output(f"{root}/d/out") as out:
        out.write(b"abc")
        out.write(pa.py_buffer(b"defg"))
        assert out.tell() == 7
        assert not out.closed
    assert out.closed
    assert storage.read(f"{root}/d/out") == b"abcdefg"


def test_aborted_output_leaves_nothing(place: Place) -> None:
    storage, root = place
    out = storage.open_output(f"{root}/d/out")
    out.write(b"abc")
    out.abort()
    out.abort()
    assert storage.stat(f"{root}/d/out") is None
    with suppress(RuntimeError), storage.open_output(f"{root}/d/out") as out:
        out.write(b"abc")
        raise RuntimeError
    assert storage.stat(f"{root}/d/out") is None
    done = storage.open_output(f"{root}/d/out")
    done.write(b"abc")
    done.close()
    done.abort()
    assert storage.stat(f"{root}/d/out") is None


def test_output_is_a_sink_of_pyarrow(place: Place) -> None:
    storage, root = place
    table = pa.table({"a": list(range(1000))})
    with storage.open_output(f"{root}/d/t.parquet") as out, pq.ParquetWriter(out, table.schema) as writer:
        writer.write_table(table)
    with storage.open_input(f"{root}/d/t.parquet") as file:
        assert pq.ParquetFile(file).read() == table


def test_storage_pickles(place: Place) -> None:
    storage, root = place
    storage.write_new(f"{root}/file", b"x")
    assert pickle.loads(pickle.dumps(storage)).read(f"{root}/file") == b"x"
