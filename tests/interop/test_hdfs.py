"""Tables on HDFS: lakecore and Java Paimon work on the same files of a real name node and two data nodes.

LAKECORE_STORES_STRIDE=1: storage fails, and connections end, at each operation of a commit, not at each ninth.
"""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.errors import LakeError, UnavailableError
from lakecore.fs.resolve import file_io_for
from lakecore.store.settle_time import settle_ms
from lakecore.table import Commit
from tests.interop.test_stores import (
    KEYED,
    PARTITION,
    Place,
    checked,
    compact_all,
    expire,
    put,
    remove_orphans,
)
from tests.support.cut_proxy import cut_proxy
from tests.support.failing_chores import check_chores
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

STRIDE = int(os.environ.get("LAKECORE_STORES_STRIDE", "9"))
QUICK = {
    "dfs.client.failover.sleep.base.millis": "1",
    "dfs.client.failover.sleep.max.millis": "10",
}
"""Requests to a name node that cannot be reached are repeated at once."""


@pytest.fixture
def place(hdfs: HdfsCluster) -> Place:
    return Place("hdfs", QUICK, f"{hdfs.root}/{uuid.uuid4().hex}")


def java_rows(java: Oracle, place: Place, table: str = "d.t") -> list[str]:
    """The rows that Java reads on the cluster, in a table with which it finds nothing wrong."""
    rows = java.read(f"{place.root}/lake", table)
    assert findings(java.fsck(f"{place.root}/lake", table)) == set()
    return rows


def test_a_table_of_lakecore_is_maintained_and_read_by_java(place: Place, oracles: dict[str, Oracle]) -> None:
    lake = place.catalog()
    lake.create_database("empty")
    table = lake.create_table("d.t", KEYED)
    assert lake.list_databases() == ["d", "empty"]
    for commit in range(4):
        put(table, range(commit, commit + 3), f"{commit}")
    compact_all(lake)
    expire(lake)
    (partition,) = (one.path for one in lake.file_io.list(table.path) if one.name.startswith("p="))
    orphan = f"{partition}/bucket-0/data-{uuid.uuid4()}-0.parquet"
    lake.file_io.write_new(orphan, b"of a writer that died")
    remove_orphans(lake)
    assert lake.file_io.stat(orphan) is None

    lake.rename_table("d.t", "d.u")
    table = place.catalog().load_table("d.u")
    expected = [(k, PARTITION, str(min(k, 3))) for k in range(6)]
    assert sorted(rows_of(table)) == expected
    assert table._stores.snapshots.list_ids() == (5,)
    checked(table)
    for java in oracles.values():
        assert len(java_rows(java, place, "d.u")) == 6

    lake.drop_table("d.u")
    lake.restore_table("d.u")
    assert sorted(rows_of(place.catalog().load_table("d.u"))) == expected
    lake.drop_database("d", cascade=True)
    lake.drop_database("empty")
    assert lake.list_databases() == []


def test_a_table_of_java_is_compacted_and_read_by_java(place: Place, oracle: Oracle) -> None:
    warehouse = f"{place.root}/lake"
    oracle.create(warehouse, "d.t", {**KEYED, "options": {"bucket": "1", "write-only": "true"}})
    for commit in range(3):
        rows = [{"k": k, "p": PARTITION, "v": f"{commit}"} for k in range(commit, commit + 3)]
        oracle.write(warehouse, "d.t", rows)
    before = java_rows(oracle, place)
    lake = place.catalog()
    compact_all(lake)
    expire(lake)
    table = lake.load_table("d.t")
    assert sorted(rows_of(table)) == [(k, PARTITION, str(min(k, 2))) for k in range(5)]
    assert java_rows(oracle, place) == before
    oracle.write(warehouse, "d.t", [{"k": 9, "p": PARTITION, "v": "again"}])
    oracle.compact(warehouse, "d.t", full=True)
    assert (9, PARTITION, "again") in rows_of(place.catalog().load_table("d.t"))
    assert len(java_rows(oracle, place)) == 6


def test_lakecore_and_java_write_at_once_and_lose_nothing(place: Place, oracles: dict[str, Oracle]) -> None:
    """No settle time and no lock: the name node decides each commit of two writers of lakecore and two JVMs."""
    options = {"bucket": "1", "write-only": "true", "commit.max-retries": "100"}
    table = place.catalog().create_table("d.t", {**KEYED, "options": options})
    assert settle_ms(options, table.path) == 0
    for java in oracles.values():
        java.read(f"{place.root}/lake", "d.t")  # its JVM runs from here on

    def of_lakecore(first: int) -> None:
        mine = place.catalog().load_table("d.t")
        for i in range(6):
            put(mine, [first + i], "x")

    def of_java(first: int, java: Oracle) -> None:
        for i in range(6):
            rows = [{"k": first + i, "p": PARTITION, "v": "x"}]
            java.write(f"{place.root}/lake", "d.t", rows, "--commit-user", f"java {first}")

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(of_java, 10 * i, java) for i, java in enumerate(oracles.values())]
        jobs += [pool.submit(of_lakecore, first) for first in (20, 30)]
        for job in jobs:
            job.result()
    table = place.catalog().load_table("d.t")
    expected = [first + i for first in (0, 10, 20, 30) for i in range(6)]
    assert sorted(row[0] for row in rows_of(table)) == expected
    assert table._stores.snapshots.list_ids() == tuple(range(1, 25))
    remove_orphans(place.catalog())  # manifests of Java's attempts that lost
    checked(table)
    for java in oracles.values():
        assert len(java_rows(java, place)) == 24


def test_of_many_clients_one_publishes_a_name(hdfs: HdfsCluster) -> None:
    """Each has a connection of its own, and all rename at the same moment."""
    root, rounds = f"{hdfs.root}/{uuid.uuid4().hex}", 10
    barrier = threading.Barrier(6)

    def publish(number: int) -> list[bool]:
        storage = file_io_for(root, QUICK)
        outcomes = []
        for i in range(rounds):
            barrier.wait(60)
            outcomes.append(storage.publish(f"{root}/snapshot-{i}", b"%d" % number))
        return outcomes

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(publish, range(6)))
    storage = file_io_for(root, QUICK)
    for i in range(rounds):
        (winner,) = (number for number in range(6) if outcomes[number][i])
        assert storage.read(f"{root}/snapshot-{i}") == b"%d" % winner
    assert len(storage.list(root)) == rounds  # no temporary file is left


def check_second_commit(place: Place, name: str, number: int) -> None:
    """A first commit and the one that was disturbed are there, each once, and nothing else after a clean-up."""
    lake = place.catalog()
    table = lake.load_table(name)
    assert sorted(row[0] for row in rows_of(table)) == [0, number]
    assert table._stores.snapshots.list_ids() == (1, 2)
    remove_orphans(lake, name)
    checked(table)


@pytest.mark.parametrize("mode", [FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD], ids=["late", "dead"])
def test_storage_that_fails_at_operation_1_2_3_of_a_commit(place: Place, mode: FaultMode) -> None:
    lake = place.catalog()
    for number in itertools.count(1, STRIDE):
        name = f"d.t{number}"
        put(lake.create_table(name, KEYED), [0], "x")
        failing = FaultyFileIO(lake.file_io, fail_at=number, mode=mode)
        commit = Commit(user="me", identifier=1)
        try:
            put(replace(lake, file_io=failing).load_table(name), [number], "x", commit)
        except LakeError:
            assert failing.fired
        put(lake.load_table(name), [number], "x", commit)
        check_second_commit(place, name, number)
        if not failing.fired:
            return


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_connections_to_the_name_node_that_end_at_some_request(
    hdfs: HdfsCluster, place: Place, after_effect: bool
) -> None:
    """The request or its answer is lost: the commit is there once, at the latest when it is repeated."""
    with cut_proxy(hdfs.port) as proxy:
        far = replace(place, root=place.root.replace(f":{hdfs.port}", f":{proxy.port}"))
        for number in itertools.count(1, STRIDE):
            name, commit = f"d.t{number}", Commit(user="me", identifier=1)
            put(place.catalog().create_table(name, KEYED), [0], "x")
            proxy.arm(number, after_effect=after_effect)
            try:
                put(far.catalog().load_table(name), [number], "x", commit)
            except LakeError:
                assert proxy.fired
            put(far.catalog().load_table(name), [number], "x", commit)  # which also brings a hint up to date
            check_second_commit(place, name, number)
            if not proxy.fired:
                return


def test_chores_on_storage_that_fails_at_some_operation(place: Place) -> None:
    """LAKECORE_CHORES_AT=hdfs LAKECORE_CHORES_STRIDE=1 with test_catalog_chores.py: at each, through each kind of catalog."""
    lake = place.catalog()
    lake.create_database("d")

    def failing_lake(failing: FaultyFileIO) -> Catalog:
        return replace(lake, file_io=failing)

    assert check_chores(lake, failing_lake, stride=83, mode=FaultMode.ERROR_AFTER_EFFECT) > 83


def test_errors_name_the_path_the_cause_and_the_remedy(
    hdfs: HdfsCluster, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, root = file_io_for(place.root, QUICK), place.root
    storage.write_new(f"{root}/file", b"x")
    with (
        hdfs.safe_mode(),
        pytest.raises(UnavailableError, match=rf"cannot publish {root}/new: .*safe mode.*wait until"),
    ):
        storage.publish(f"{root}/new", b"x")

    storage.make_directory(f"{root}/few")
    hdfs.run(f"names {root.removeprefix(hdfs.root)}/few 2")
    storage.write_new(f"{root}/few/1", b"x")
    with pytest.raises(UnavailableError, match=r"few/2: The NameSpace quota .*quota=2 .*-setQuota"):
        storage.publish(f"{root}/few/2", b"x")
    storage.make_directory(f"{root}/small")
    hdfs.run(f"space {root.removeprefix(hdfs.root)}/small 1000")
    with (
        pytest.raises(UnavailableError, match=r"small/f: The DiskSpace quota .*= 1000 B.*-setSpaceQuota"),
        storage.open_output(f"{root}/small/f") as output,
    ):
        output.write(b"x" * 2000)
    assert storage.list(f"{root}/small") == []

    with pytest.raises(UnavailableError, match=r"few: .*the directory is not empty"):
        storage.remove_directory(f"{root}/few")
    with pytest.raises(UnavailableError, match=r"a part of the path is a file"):
        storage.write_new(f"{root}/file/below", b"x")
    with pytest.raises(UnavailableError, match=r"it is a file, not a directory"):
        storage.remove_directory(f"{root}/file")

    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    stranger = file_io_for(root, QUICK)
    with pytest.raises(UnavailableError, match=r"new: Permission denied: user=stranger, access=WRITE.*give"):
        stranger.publish(f"{root}/new", b"x")
    with pytest.raises(UnavailableError, match=r"cannot delete .*user=stranger"):
        stranger.delete(f"{root}/file")
    assert stranger.read(f"{root}/file") == b"x"
    assert [one.name for one in storage.list(root)] == ["few", "file", "small"]


def test_new_files_have_the_permissions_and_copies_of_the_options(hdfs: HdfsCluster, place: Place) -> None:
    from hdfs_native import Client

    options = {
        **QUICK,
        "fs.permissions.umask-mode": "027",
        "hadoop.dfs.replication": "1",
        "dfs.blocksize": "1 mb",
    }
    storage = file_io_for(place.root, options)
    storage.make_directory(f"{place.root}/d")
    storage.write_new(f"{place.root}/d/f", b"x")
    client, name = Client(hdfs.root), place.root.removeprefix(hdfs.root)
    file, directory = client.get_file_info(f"{name}/d/f"), client.get_file_info(f"{name}/d")
    assert (oct(file.permission), oct(directory.permission)) == ("0o640", "0o750")
    assert (file.replication, file.blocksize) == (1, 1 << 20)
