"""File systems of fsspec are read, and nothing is changed there."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import lakecore
from lakecore.cli.main import main
from lakecore.errors import (
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    is_secret,
)
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.jobs import expire_snapshots
from tests.support.file_servers import HttpServer, SftpServer, http_server, sftp_server
from tests.support.lake import put

ROWS = [{"k": one, "p": f"a%/{one}"} for one in range(3)]
DATA = b"0123456789" * 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the table d.t, and some files."""
    folder = tmp_path_factory.mktemp("lake")
    lake = lakecore.load_catalog(str(folder))
    table = lake.create_table(
        "d.t",
        {
            "columns": ["k INT NOT NULL", "p STRING NOT NULL"],
            "primaryKeys": ["p", "k"],
            "partitionKeys": ["p"],
            "options": {"bucket": "1"},
        },
    )
    put(table, ROWS[:1], ROWS[1:])
    (folder / "files" / "a b=%2F+é").mkdir(parents=True)
    (folder / "files" / "a b=%2F+é" / "x y%25.bin").write_bytes(DATA)
    (folder / "files" / "empty").write_bytes(b"")
    return folder


@pytest.fixture
def http(folder: Path) -> Iterator[HttpServer]:
    with http_server(folder) as server:
        yield server


@pytest.fixture
def sftp(folder: Path) -> Iterator[SftpServer]:
    with sftp_server(folder) as server:
        yield server


Place = tuple[str, dict[str, str]]


@pytest.fixture(params=["memory", "zip", "http", "sftp"])
def place(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[Place]:
    """The location of the warehouse, and the options that open it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    match request.param:
        case "zip":
            with zipfile.ZipFile(tmp_path / "lake.zip", "w") as archive:
                for path in files:
                    archive.write(path, path.relative_to(folder))
            yield "zip://", {"fsspec.fo": f"{tmp_path}/lake.zip"}
        case "memory":
            memory = fsspec.filesystem("memory")
            for path in files:
                memory.pipe_file(f"/unit/{path.relative_to(folder)}", path.read_bytes())
            yield "fsspec+memory:///unit", {}
            memory.rm("/unit", recursive=True)
        case other:
            server: HttpServer | SftpServer = request.getfixturevalue(other)
            yield server.root, getattr(server, "options", {})


def _rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])


def test_files_are_read_as_they_are(place: Place) -> None:
    location, options = place
    root = plain_path(location)
    storage = file_io_for(location, options)
    assert [(one.name, one.is_dir, one.size) for one in storage.list(f"{root}/files")] == [
        ("a b=%2F+é", True, 0),
        ("empty", False, 0),
    ]
    (inner,) = storage.list(f"{root}/files/a b=%2F+é")
    assert (inner.path, inner.size) == (f"{root}/files/a b=%2F+é/x y%25.bin", len(DATA))
    assert storage.read(inner.path) == DATA
    assert storage.read(f"{root}/files/empty") == b""
    with storage.open_ranges(inner.path) as ranges:
        assert ranges.size() == len(DATA)
        assert [ranges.read_at(n, at) for n, at in ((3, 1), (9, len(DATA) - 2), (0, 0))] == [
            b"123",
            b"89",
            b"",
        ]
        with ThreadPoolExecutor(4) as pool:
            read = pool.map(lambda at: ranges.read_at(10, at), range(0, 400, 10))
            assert list(read) == [b"0123456789"] * 40
    with storage.open_input(inner.path) as file:
        assert (file.size(), file.seek(5), file.read(3)) == (len(DATA), 5, b"567")
    status = storage.stat(f"{root}/files")
    assert status is not None
    assert status.is_dir


def test_what_is_missing_is_not_found(place: Place) -> None:
    location, options = place
    root = plain_path(location)
    storage = file_io_for(location, options)
    assert storage.stat(f"{root}/nothing") is None
    assert storage.list(f"{root}/nothing") == []
    for read in (storage.read, storage.open_ranges, storage.open_input):
        with pytest.raises(NotFoundError, match="nothing"):
            read(f"{root}/nothing")


def test_every_change_is_refused_before_a_request(place: Place, http: HttpServer) -> None:
    location, options = place
    lake = lakecore.load_catalog(location, **options)
    table = lake.load_table("d.t")
    assert _rows(table) == ROWS
    retained = expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1)
    changes: list[Callable[[], Any]] = [
        lambda: table.upsert(pa.table({"k": pa.array([9], pa.int32()), "p": ["x"]})),
        lambda: lake.create_table("d.u", {"columns": ["k INT"]}),
        lambda: lake.create_database("e"),
        lambda: lake.drop_table("d.t"),
        lambda: lake.rename_table("d.t", "d.u"),
        lambda: table.delete("k = 1"),
        lambda: expire_snapshots.run(retained, lake),
    ]
    for change in changes:
        with pytest.raises(
            UnsupportedError, match=r"only reads the (file systems of fsspec, because|store of)"
        ):
            change()
    assert {one.split()[0] for one in http.requests} <= {"GET", "HEAD"}


def test_a_catalog_with_names_elsewhere_keeps_them(tmp_path: Path) -> None:
    names = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'names.db'}"}
    folder = tmp_path / "lake"
    lake = lakecore.load_catalog(str(folder), create_warehouse=True, **names)
    lake.create_database("d")
    put(lake.create_table("d.t", {"columns": ["k INT"]}), [{"k": 1}])
    with http_server(folder) as http:
        copy = lakecore.load_catalog(http.root, **names)
        changes: list[Callable[[], Any]] = [
            lambda: copy.create_database("e"),
            lambda: copy.alter_database("d", {"owner": "me"}),
            lambda: copy.drop_database("d", cascade=True),
            lambda: copy.create_table("d.u", {"columns": ["k INT"]}),
            lambda: copy.rename_table("d.t", "d.u"),
            lambda: copy.drop_table("d.t"),
        ]
        for change in changes:
            with pytest.raises(UnsupportedError, match="only reads the"):
                change()
    assert lake.list_databases() == ["d"]
    assert lake.list_tables("d") == ["t"]
    assert "owner" not in lake.get_database("d").properties


def test_a_new_snapshot_is_seen(tmp_path: Path) -> None:
    """Listings are not kept, neither by a file system nor by a table."""
    lake = lakecore.load_catalog(str(tmp_path))
    table = lake.create_table("d.t", {"columns": ["k INT"]})
    put(table, [{"k": 1}])
    with http_server(tmp_path) as http, sftp_server(tmp_path) as sftp:
        readers = [
            lakecore.load_catalog(http.root).load_table("d.t"),
            lakecore.load_catalog(sftp.root, **sftp.options).load_table("d.t"),
        ]
        for count in (1, 2, 3):
            assert [_rows(one) for one in readers] == [_rows(table)] * 2
            assert len(_rows(table)) == count
            put(table, [{"k": count + 1}])


def test_commands_read(http: HttpServer, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("describe", "fsck", "files", "snapshots", "read", "partitions"):
        assert main(["--warehouse", http.root, command, "d.t"]) == 0, command
    shown = capsys.readouterr().out
    assert "lakecore: only reads there" in shown
    assert '"k":2' in shown
    assert main(["--warehouse", http.root, "lookup", "d.t", "p=a%/1,k=1"]) == 0
    looked_up = capsys.readouterr()
    assert '"k":1' in looked_up.out, looked_up.err
    assert main(["--warehouse", http.root, "stream", "d.t", "--mode", "latest-full"]) == 0
    assert '"k":2' in capsys.readouterr().out
    assert main(["--warehouse", http.root, "create-database", "e"]) == 1
    assert "lakecore only reads the store of" in capsys.readouterr().err


def test_damaged_answers_are_errors(http: HttpServer, folder: Path) -> None:
    table = lakecore.load_catalog(http.root).load_table("d.t")
    data_file = next((folder / "d.db" / "t").rglob("data-*.parquet")).name
    http.short = data_file
    with pytest.raises(
        UnavailableError, match=rf"{data_file}: \d+ bytes came instead of \d+; the connection"
    ):
        _rows(table)
    http.short, http.missing = None, data_file
    with pytest.raises(LakeError, match=rf"{data_file}.*(does not exist|missing)"):
        _rows(table)
    http.missing, http.whole = None, True
    storage = file_io_for(http.root, {})
    with (
        storage.open_ranges(f"{http.root}/files/a b=%2F+é/x y%25.bin") as ranges,
        pytest.raises(UnsupportedError, match="answered 10000 bytes for a range of 4"),
    ):
        ranges.read_at(4, 0)


@pytest.mark.parametrize(("status", "message"), [(403, "permission is denied"), (500, "500"), (503, "503")])
def test_a_server_that_refuses_is_not_an_empty_directory(http: HttpServer, status: int, message: str) -> None:
    http.status = status
    storage = file_io_for(http.root, {})
    for ask in (storage.list, storage.stat, storage.read, storage.open_ranges):
        with pytest.raises(UnavailableError, match=message):
            ask(f"{http.root}/d.db")


def test_unreachable_servers_are_unavailable(folder: Path) -> None:
    with http_server(folder) as http:
        pass
    with sftp_server(folder) as sftp:
        pass
    for root, options in ((http.root, {}), (sftp.root, sftp.options)):
        storage = file_io_for(root, options)
        for ask in (storage.list, storage.stat, storage.read):
            with pytest.raises(UnavailableError, match="cannot"):
                ask(f"{root}/d.db")
    storage = file_io_for("zip://", {"fsspec.fo": f"{folder}/none.zip"})
    with pytest.raises(UnavailableError, match=r"cannot open zip://~/d\.db"):
        storage.list("zip://~/d.db")


def test_a_lost_connection_is_opened_again(sftp: SftpServer) -> None:
    storage = file_io_for(sftp.root, sftp.options)
    assert storage.list(f"{sftp.root}/files")
    sftp.cut()
    with pytest.raises(UnavailableError, match="cannot list"):
        storage.list(f"{sftp.root}/files")
    assert storage.list(f"{sftp.root}/files")


def test_denied_paths_and_wrong_passwords_are_named(sftp: SftpServer) -> None:
    sftp.denied = "files"
    storage = file_io_for(sftp.root, sftp.options)
    for ask in (storage.list, storage.stat, storage.read):
        with pytest.raises(UnavailableError, match="files: permission is denied"):
            ask(f"{sftp.root}/files")
    storage = file_io_for(sftp.root, {**sftp.options, "fsspec.password": "hunter3"})
    with pytest.raises(UnavailableError, match="Authentication") as caught:
        storage.list(f"{sftp.root}/files")
    assert "hunter" not in f"{caught.value!r}{caught.value.__cause__!r}"


@pytest.mark.parametrize("kind", ["http", "sftp"])
def test_a_forked_process_connects_anew(kind: str, request: pytest.FixtureRequest) -> None:
    server: HttpServer | SftpServer = request.getfixturevalue(kind)
    storage = file_io_for(server.root, getattr(server, "options", {}))
    path = f"{server.root}/files/a b=%2F+é/x y%25.bin"
    assert storage.read(path) == DATA
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            code = 0 if storage.read(path) == DATA else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert storage.read(path) == DATA


def test_options_are_shown_nowhere() -> None:
    options = {"fsspec.password": "hunter2", "fsspec.client_kwargs": '{"auth": "hunter3"}'}
    storage = file_io_for("sftp://me@host/lake", options)
    assert "hunter" not in repr(storage)
    assert pickle.loads(pickle.dumps(storage)) == storage
    assert all(is_secret(key) for key in options)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("sftp://me@host:22//a/b/", "sftp://me@host:22/a/b"),
        ("zip://", "zip://~"),
        ("zip:///g.db", "zip://g.db"),
        ("github://org:repo@main/lake", "github://org:repo@main/lake"),
        ("fsspec+s3://bucket/a", "fsspec+s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket/a"),
    ],
)
def test_locations(location: str, path: str) -> None:
    assert plain_path(location) == plain_path(path) == path


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("zip://a::/tmp/b.zip", "chains of fsspec"),
        ("sftp://host/a/../b", "the part '..'"),
        ("https://host/a?token=x", "query"),
        ("https://me:hunter2@host/a", "cannot have a password"),
        ("sftp://me:hunter2@host/a", "cannot have a password"),
        ("simplecache://a", "hide new snapshots"),
        ("local:///tmp", "write the path"),
        ("ftp://host/a", "look empty"),
        ("nosuch://a", r"lakecore\[fsspec\]"),
    ],
)
def test_refused_locations(location: str, message: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedError), match=message) as caught:
        plain_path(location)
    assert "hunter" not in str(caught.value)


def test_refused_options(folder: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"fsspec\.mode: lakecore only reads"):
        file_io_for("zip://", {"fsspec.mode": "w", "fsspec.fo": f"{folder}/x.zip"})
    with pytest.raises(InvalidOptionError, match=r"fsspec\.use_listings_cache"):
        lakecore.load_catalog("http://127.0.0.1:1/", **{"fsspec.use_listings_cache": "true"})
    with (
        sftp_server(folder) as sftp,
        pytest.raises(InvalidOptionError, match="does not have these parameters"),
    ):
        file_io_for(sftp.root, {**sftp.options, "fsspec.nosuch": "1"}).list(f"{sftp.root}/files")
