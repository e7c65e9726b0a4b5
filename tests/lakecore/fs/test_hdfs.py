"""HDFS without a cluster: locations, options, files of Hadoop's configuration, and answers that are lost."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakecore.catalog.catalog_options import check_catalog_options
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.publish import publish_resolved
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores.hdfs import HdfsConnection
from lakecore.fs.stores.hdfs_errors import translate_hdfs
from lakecore.fs.stores.hdfs_files import HdfsFileIO
from lakecore.fs.stores.registry import is_object_store
from lakecore.store.settle_time import settle_ms
from lakecore.store.two_writers import other_writers
from tests.support.fake_clock import FakeClock

ROOT = "hdfs://nn:8020/lake"
LOST = OSError("Connection reset by peer (os error 104)")
HA = {
    "dfs.ha.namenodes.prod": "a,b",
    "dfs.namenode.rpc-address.prod.a": "h1:8020",
    "dfs.namenode.rpc-address.prod.b": "h2:8020",
}


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_HOME", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("hdfs://nn:8020/a/", "hdfs://nn:8020/a"),
        ("HDFS://nn//a//b=x%2Fy", "hdfs://nn/a/b=x%2Fy"),
        ("hdfs://My_service", "hdfs://My_service"),
    ],
    ids=["port", "slashes", "nameservice"],
)
def test_plain_path(location: str, path: str) -> None:
    assert plain_path(location) == path
    assert plain_path(path) == path


@pytest.mark.parametrize(
    "location", ["hdfs:///a", "hdfs:/a", "hdfs://", "hdfs://me@nn/a", "hdfs://nn:x/a"], ids=str
)
def test_locations_that_name_no_name_node(location: str) -> None:
    with pytest.raises(InvalidInputError, match="write hdfs://namenode:8020/path or hdfs://nameservice"):
        plain_path(location)


def test_viewfs_is_no_store() -> None:
    with pytest.raises(UnsupportedError, match=r"viewfs.*hdfs://"):
        plain_path("viewfs://cluster/a")


def test_java_replaces_nothing_on_hdfs() -> None:
    assert not is_object_store(ROOT)
    assert settle_ms({}, ROOT) == 0
    assert settle_ms({"lakecore.commit.settle-time": "1 s"}, ROOT) == 1000
    others = other_writers({}, ROOT)
    assert (others.store, others.lakecore, others.java) == ("HDFS", "no commit is lost", "no commit is lost")


@pytest.mark.parametrize(
    "options",
    [
        {"dfs.replication": "2", "fs.permissions.umask-mode": "027"},
        {"hadoop.dfs.replication": "2", "hadoop.fs.permissions.umask-mode": "027"},
        {"hadoop.dfs.replication": "9", "dfs.replication": "2", "fs.permissions.umask-mode": "0027"},
    ],
    ids=["bare", "prefixed", "bare-wins"],
)
def test_options_with_and_without_the_prefix_of_paimon(options: dict[str, str]) -> None:
    check_catalog_options(options)
    connection = HdfsConnection.from_options(options)
    assert (connection.replication, connection.umask, connection.directory_mode) == (2, 0o027, 0o750)


def test_properties_of_the_library() -> None:
    options = {
        **HA,
        "hadoop.dfs.client.socket-timeout": "1000",
        "hadoop.security.authentication": "kerberos",
        "dfs.client.failover.resolver.usefqdn.prod": "false",  # as Spark has it
        "security.kerberos.login.principal": "me@REALM",
        "security.kerberos.login.keytab": "/k",
    }
    check_catalog_options(options)
    connection = HdfsConnection.from_options({**options, "s3.endpoint": "x"})
    assert dict(connection.properties) == {
        **HA,
        "dfs.client.socket-timeout": "1000",
        "hadoop.security.authentication": "kerberos",
        "dfs.client.failover.resolver.useFQDN.prod": "false",
    }
    assert (connection.principal, connection.keytab) == ("me@REALM", "/k")
    storage = HdfsFileIO(connection)
    assert pickle.loads(pickle.dumps(storage)) == storage


@pytest.mark.parametrize(
    "key",
    ["fs.defaultFS", "dfs.client.read.shortcircuit", "hadoop.fs.trash.interval", "dfs.user.home.dir.prefix"],
)
def test_an_option_without_effect_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"catalog option {key}: .*no effect"):
        check_catalog_options({key: "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dfs.replication": "0"}, "dfs.replication='0'"),
        ({"dfs.blocksize": "big"}, "dfs.blocksize='big'"),
        ({"fs.permissions.umask-mode": "u=rwx"}, "octal digits"),
        ({"security.kerberos.login.keytab": "/k"}, "principal is missing; .*keytab=/k needs it"),
        ({"security.kerberos.login.principal": "me"}, "principal=me: .*authentication=kerberos"),
        ({"hadoop-conf-dir": "/nowhere"}, "hadoop-conf-dir=/nowhere: it has neither core-site.xml"),
    ],
    ids=["copies", "block", "umask", "keytab", "principal", "directory"],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        file_io_for(ROOT, options)


def write_site(path: Path, properties: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    items = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    path.write_text(f"<configuration>{''.join(items)}</configuration>")


def test_files_of_hadoop_and_options_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of HADOOP_HOME, HADOOP_CONF_DIR and hadoop-conf-dir, then options: each wins over those before it."""
    home, conf, chosen = (tmp_path / name for name in ("home", "conf", "chosen"))
    monkeypatch.setenv("HADOOP_HOME", str(home))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    write_site(
        home / "etc" / "hadoop" / "core-site.xml", {"fs.defaultFS": "hdfs://x", "dfs.replication": "1"}
    )
    write_site(home / "etc" / "hadoop" / "hdfs-site.xml", {**HA, "dfs.blocksize": "1m"})
    write_site(conf / "hdfs-site.xml", {"dfs.replication": "2", "dfs.blocksize": "2m"})
    write_site(chosen / "core-site.xml", {"dfs.blocksize": "3m", "fs.permissions.umask-mode": "000"})
    options = {"hadoop-conf-dir": str(chosen), "fs.permissions.umask-mode": "077"}
    check_catalog_options(options)
    connection = HdfsConnection.from_options(options)
    assert dict(connection.properties) == HA
    assert (connection.replication, connection.block_size, connection.umask) == (2, 3 << 20, 0o077)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<configuration><property></configuration>", "no configuration of Hive or Hadoop"),
        ("<!DOCTYPE x><configuration/>", "declares entities"),
        (
            "<property><name>dfs.replication</name><value>${n}</value></property>",
            r"dfs.replication=\$\{n\}: lakecore does not replace",
        ),
    ],
    ids=["xml", "entities", "variable"],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hdfs-site.xml").write_text(text)
    with pytest.raises(InvalidOptionError, match=f"hdfs-site.xml: .*{message}"):
        HdfsConnection.from_options({"hadoop-conf-dir": str(tmp_path)})


@pytest.mark.parametrize(
    ("authority", "options", "address", "attempts"),
    [
        ("nn:9000", {}, "hdfs://nn:9000", "4"),
        ("nn", {}, "hdfs://nn:8020", "4"),
        ("nn", {"dfs.client.failover.max.attempts": "1"}, "hdfs://nn:8020", "1"),
        ("prod", HA, "hdfs://prod", None),
    ],
    ids=["port", "default-port", "attempts", "nameservice"],
)
def test_the_client_that_is_made(
    monkeypatch: pytest.MonkeyPatch,
    authority: str,
    options: dict[str, str],
    address: str,
    attempts: str | None,
) -> None:
    calls: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr("hdfs_native.Client", lambda url, config, **more: calls.append((url, config)))
    HdfsConnection.from_options(options).connect(authority)
    ((url, config),) = calls
    assert (url, config.get("dfs.client.failover.max.attempts")) == (address, attempts)


def test_a_name_node_that_cannot_be_reached_is_named() -> None:
    storage = file_io_for("hdfs://127.0.0.1:1", {"dfs.client.failover.max.attempts": "0"})
    with pytest.raises(
        UnavailableError, match=r"cannot list hdfs://127.0.0.1:1/x: .*refused.*check the address"
    ):
        storage.list("hdfs://127.0.0.1:1/x")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            'GSSAPIError(Failure, 851968, "no ticket")',
            UnavailableError,
            "Kerberos refused .*no ticket.*kinit",
        ),
        ('DataTransferError("x")', UnavailableError, "data nodes did not serve it.*dfsadmin -report"),
        (
            'RPCError("org.apache.hadoop.ipc.StandbyException", "Operation category READ\\n\\tat x")',
            UnavailableError,
            "name of the nameservice",
        ),
        (
            'RPCError("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /a//b\\n\\tat x")',
            InvalidInputError,
            "empty part",
        ),
        ('RPCError("a.b.OddException", "why \\"x\\"\\n\\tat y")', UnavailableError, 'OddException: why "x"$'),
    ],
    ids=["kerberos", "data-node", "standby", "path", "other"],
)
def test_errors_of_the_library(text: str, kind: type[LakeError], message: str) -> None:
    err = translate_hdfs(RuntimeError(text), "read", ROOT)
    assert type(err) is kind
    with pytest.raises(kind, match=message):
        raise err


class FakeClient:
    """A name node in memory. `faults`: an operation, and whether its effect comes before the connection is lost."""

    def __init__(self, files: dict[str, bytes], faults: dict[str, bool]) -> None:
        self.files = files
        self.faults = faults

    def _lose(self, operation: str, effect: Callable[[], Any]) -> Any:
        if operation not in self.faults:
            return effect()
        if self.faults.pop(operation):
            effect()
        raise LOST

    def create(self, name: str, options: object) -> Any:
        data = bytearray()
        return SimpleNamespace(write=data.extend, close=lambda: self.files.update({name: bytes(data)}))

    def read(self, name: str) -> Any:
        if name not in self.files:
            raise FileNotFoundError(name)
        return FakeReader(self.files[name])

    def rename(self, name: str, target: str, overwrite: bool) -> None:
        def effect() -> None:
            if target in self.files and not overwrite:
                raise FileExistsError(target)
            self.files[target] = self.files.pop(name)

        self._lose("rename", effect)

    def delete(self, name: str, recursive: bool) -> bool:
        return bool(self._lose("delete", lambda: self.files.pop(name, None) is not None))

    def mkdirs(self, *_: object, **__: object) -> None:
        pass

    def get_file_info(self, name: str) -> Any:
        if name not in self.files:
            raise FileNotFoundError(name)
        return SimpleNamespace(isdir=False, length=len(self.files[name]), modification_time=0)


class FakeReader(bytes):
    def read_range(self, offset: int, size: int) -> bytes:
        return self[offset : offset + size]


def storage_with(monkeypatch: pytest.MonkeyPatch, **faults: bool) -> tuple[HdfsFileIO, dict[str, bytes]]:
    files: dict[str, bytes] = {}
    monkeypatch.setattr(HdfsConnection, "connect", lambda self, authority: FakeClient(files, faults))
    return HdfsFileIO(HdfsConnection()), files


class LateReports(FakeClient):
    """Its data nodes report the last three bytes of each file after `looks` readers were opened."""

    looks = 0

    def read(self, name: str) -> Any:
        whole = super().read(name)
        self.looks -= 1
        return whole if self.looks < 0 else FakeReader(whole[:-3])


def test_a_reader_waits_for_the_report_of_the_last_block(monkeypatch: pytest.MonkeyPatch) -> None:
    client = LateReports({"/lake/s": b"whole"}, {})
    monkeypatch.setattr(HdfsConnection, "connect", lambda self, authority: client)
    clock = FakeClock(0)
    storage = HdfsFileIO(HdfsConnection(), clock)
    client.looks = 4
    assert storage.read(f"{ROOT}/s") == b"whole"
    assert clock.monotonic() == pytest.approx(0.01 + 0.02 + 0.04 + 0.08)
    client.looks = 1_000
    with pytest.raises(
        UnavailableError, match=f"cannot read {ROOT}/s: it has 5 bytes, .* reported 2 of them"
    ):
        storage.open_input(f"{ROOT}/s")
    assert clock.monotonic() < 11


def test_a_rename_whose_answer_is_lost_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, files = storage_with(monkeypatch, rename=True)
    assert storage.publish(f"{ROOT}/s", b"mine")
    assert files == {"/lake/s": b"mine"}


def test_a_rename_that_is_lost_has_not_happened_and_never_will(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, files = storage_with(monkeypatch, rename=False)
    with pytest.raises(UnavailableError, match=f"cannot publish {ROOT}/s: .*reset by peer"):
        storage.publish(f"{ROOT}/s", b"mine")
    assert files == {}


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_an_outcome_that_stays_unknown_is_reported_and_resolved(
    monkeypatch: pytest.MonkeyPatch, renamed: bool, deleted: bool
) -> None:
    storage, files = storage_with(monkeypatch, rename=renamed, delete=deleted)
    with pytest.raises(CommitUncertainError, match=f"not known whether {ROOT}/s was published"):
        storage.publish(f"{ROOT}/s", b"mine")
    storage, files = storage_with(monkeypatch, rename=renamed, delete=deleted)
    assert publish_resolved(storage, f"{ROOT}/s", b"mine", FakeClock(0))
    assert files["/lake/s"] == b"mine"
    storage, files = storage_with(monkeypatch, rename=renamed, delete=deleted)
    if renamed:
        storage.write_new(f"{ROOT}/s", b"mine")
        assert files == {"/lake/s": b"mine"}


def test_the_loser_of_a_race_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, files = storage_with(monkeypatch)
    assert storage.publish(f"{ROOT}/s", b"theirs")
    assert not storage.publish(f"{ROOT}/s", b"mine")
    with pytest.raises(AlreadyExistsError):
        storage.write_new(f"{ROOT}/s", b"mine")
    assert files == {"/lake/s": b"theirs"}


def test_a_move_whose_answer_is_lost_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, files = storage_with(monkeypatch, rename=True)
    files["/lake/a"] = b"x"
    storage.move(f"{ROOT}/a", f"{ROOT}/b")
    assert files == {"/lake/b": b"x"}
    storage, files = storage_with(monkeypatch, rename=False)
    files["/lake/a"] = b"x"
    with pytest.raises(UnavailableError):
        storage.move(f"{ROOT}/a", f"{ROOT}/b")
    assert files == {"/lake/a": b"x"}
    with pytest.raises(NotFoundError):
        storage.move(f"{ROOT}/c", f"{ROOT}/d")


def test_other_stores_and_name_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, files = storage_with(monkeypatch)
    files["/a"] = b"x"
    with pytest.raises(InvalidInputError, match="not a path of the store hdfs://"):
        storage.read("s3://bucket/a")
    with pytest.raises(UnavailableError, match="another name node"):
        storage.move("hdfs://one/a", "hdfs://two/a")
    assert not storage.move_directory("hdfs://one/a", "hdfs://two/a")
