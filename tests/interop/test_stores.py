"""Each store, over a server of its own: tables from the first write to the removal of orphans.

Java Paimon reads and checks a copy; it has no client for these servers. LAKECORE_STORES_STRIDE=1: storage fails at
every operation of every store, not at each 37th on Azure.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import LakeError
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.runner.chore import Safety
from lakecore.table import Commit, Table
from lakecore.verify.fsck.check import fsck
from tests.interop.test_s3 import download
from tests.support.azurite import azurite
from tests.support.cut_proxy import cut_proxy
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.gcs_server import gcs_server
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, findings
from tests.support.oss_server import oss_server
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

STRIDE = int(os.environ.get("LAKECORE_STORES_STRIDE", "37"))
KEYED: dict[str, Any] = {
    "columns": ["k INT", "p STRING", "v STRING"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "0"},
}
PARTITION = "a/b=ü %20"
ADDRESSES = {
    "s3": "s3.endpoint",
    "azure": "lakecore.azure.endpoint",
    "gcs": "fs.gs.storage.root.url",
    "oss": "fs.oss.endpoint",
}
AT_ONCE = Safety(owner="test", quarantine=False)


@dataclass(frozen=True)
class Place:
    """A store: the options to reach it, and a root of its own for each test."""

    kind: str
    options: dict[str, str]
    root: str

    def catalog(self, name: str = "lake", **options: str) -> FilesystemCatalog:
        return load_catalog(f"{self.root}/{name}", **{**self.options, **options})


MANY_WRITERS = ["s3", "azure", "gcs"]
ONE_WRITER = ["oss"]


SERVERS: dict[str, Any] = {"s3": s3_server, "azure": azurite, "gcs": gcs_server, "oss": oss_server}


@pytest.fixture(scope="module", params=[*MANY_WRITERS, *ONE_WRITER])
def store(request: pytest.FixtureRequest) -> Iterator[Place]:
    with SERVERS[request.param]() as server:
        yield Place(request.param, server.options, server.root)


@pytest.fixture
def place(store: Place) -> Place:
    return replace(store, root=f"{store.root}/{uuid.uuid4().hex}")


def put(table: Table, keys: range | list[int], value: str, commit: Commit | None = None) -> None:
    table.upsert(pa.table({"k": list(keys), "p": [PARTITION] * len(keys), "v": [value] * len(keys)}), commit)


def expire(lake: FilesystemCatalog, name: str = "d.t") -> None:
    clock = lake.clock
    limits = expire_snapshots.Job(
        table=name, retain_max=1, retain_min=1, older_than_ms=clock.now_ms() + 1, safety=AT_ONCE
    )
    assert expire_snapshots.run(limits, lake).error is None


def compact_all(lake: FilesystemCatalog, name: str = "d.t") -> None:
    job = compact.Job(table=name, strategy=compact.Strategy.FULL, commit_user="night", commit_identifier=1)
    compact.run(job, lake)


def remove_orphans(lake: FilesystemCatalog, name: str = "d.t") -> None:
    in_two_days = FakeClock(lake.clock.now_ms() + 2 * 86_400_000)
    job = remove_orphan_files.Job(table=name, safety=AT_ONCE)
    assert remove_orphan_files.run(job, lake, clock=in_two_days).error is None


def checked(table: Table) -> None:
    stores = table._stores
    assert not fsck(
        stores.file_io, stores.paths, now_ms=stores.clock.now_ms(), deep=True, read_data=True
    ).findings


def test_a_table_from_the_first_write_to_the_last_orphan(
    place: Place, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    lake = place.catalog()
    lake.create_database("empty")
    table = lake.create_table("d.t", KEYED)
    assert lake.list_databases() == ["d", "empty"]
    for commit in range(4):
        put(table, range(commit, commit + 3), f"{commit}")
    compact_all(lake)
    expire(lake)
    (partition,) = (one.path for one in lake.file_io.list(table.path) if one.name.startswith("p="))
    lake.file_io.write_new(f"{partition}/bucket-0/data-{uuid.uuid4()}-0.parquet", b"of a writer that died")
    remove_orphans(lake)

    table = place.catalog().load_table("d.t")
    expected = [
        (0, PARTITION, "0"),
        (1, PARTITION, "1"),
        (2, PARTITION, "2"),
        *((k, PARTITION, "3") for k in (3, 4, 5)),
    ]
    assert sorted(rows_of(table)) == expected
    assert table._stores.snapshots.list_ids() == (5,)
    checked(table)
    download(lake.file_io, lake.warehouse, tmp_path / "copy")
    for java in oracles.values():
        assert len(java.read(tmp_path / "copy", "d.t")) == 6
        assert findings(java.fsck(tmp_path / "copy", "d.t")) == set()

    lake.drop_table("d.t")
    lake.restore_table("d.t")
    assert sorted(rows_of(place.catalog().load_table("d.t"))) == expected
    lake.drop_database("d", cascade=True)
    lake.drop_database("empty")
    assert lake.list_databases() == []


@pytest.mark.parametrize("store", MANY_WRITERS, indirect=True)
def test_two_committers_lose_nothing(place: Place) -> None:
    place.catalog().create_table("d.t", KEYED)

    def writing(number: int) -> None:
        table = place.catalog().load_table("d.t")
        for i in range(5):
            put(table, [10 * number + i], "x")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(writing, (1, 2)))
    table = place.catalog().load_table("d.t")
    assert sorted(row[0] for row in rows_of(table)) == [*range(10, 15), *range(20, 25)]
    assert table._stores.snapshots.list_ids() == tuple(range(1, 11))
    checked(table)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
def test_connections_that_end_at_some_request(place: Place, lasting: bool) -> None:
    """The request is answered, and the answer is lost: the commit is there once, at the latest when it is repeated.

    Each fifth or 17th request: a commit makes more requests the more snapshots there are, so it would never end at 1.
    """
    port = int(place.options[ADDRESSES[place.kind]].split(":")[2].split("/")[0])
    place.catalog().create_table("d.t", KEYED)
    with cut_proxy(port) as proxy:
        address = place.options[ADDRESSES[place.kind]].replace(f":{port}", f":{proxy.port}")
        table = place.catalog(**{ADDRESSES[place.kind]: address}).load_table("d.t")
        for number in itertools.count(1, 17 if lasting else 5):
            before = place.catalog().load_table("d.t")._stores.snapshots.list_ids()
            proxy.arm(number, after_effect=True, lasting=lasting)
            try:
                put(table, [number], "x", Commit(user="me", identifier=number))
            except LakeError:
                assert lasting, "a request whose answer is lost is repeated"
                proxy.arm(0, after_effect=False)
                put(table, [number], "x", Commit(user="me", identifier=number))
            fired = proxy.fired
            after = place.catalog().load_table("d.t")
            assert after._stores.snapshots.list_ids() == (*before, len(before) + 1)
            assert (number, PARTITION, "x") in rows_of(after)
            if not fired and proxy.cut_at:
                break
        checked(after)


@pytest.mark.parametrize("store", ["azure"] if STRIDE > 1 else [*MANY_WRITERS, *ONE_WRITER], indirect=True)
@pytest.mark.parametrize("mode", [FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD][: 2 if STRIDE == 1 else 1])
def test_storage_that_fails_at_operation_1_2_3(place: Place, mode: FaultMode) -> None:
    """Compaction, expiry and removal of orphans: the rows stay, and a second run finishes the work."""
    for number in itertools.count(1, STRIDE):
        lake = place.catalog(f"{number}")
        table = lake.create_table("d.t", KEYED)
        for commit in range(2):
            put(table, range(commit, commit + 2), f"{commit}")
        failing = FaultyFileIO(lake.file_io, fail_at=number, mode=mode)
        for chore in (compact_all, expire, remove_orphans):
            try:
                chore(replace(lake, file_io=failing))
            except (LakeError, AssertionError):
                assert failing.fired
            chore(lake)
        after = place.catalog(f"{number}").load_table("d.t")
        assert sorted(rows_of(after)) == [(0, PARTITION, "0"), (1, PARTITION, "1"), (2, PARTITION, "1")]
        checked(after)
        if not failing.fired:
            return
