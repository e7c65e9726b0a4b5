"""A catalog that keeps schemas, snapshots and lists of partitions: scans may be stale, nothing else ever is."""

from __future__ import annotations

import itertools
import pickle
import random
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.catalog.warehouse.cached_table import CachedTable
from lakecore.errors import CorruptDataError, LakeError, NotFoundError, UnsupportedError
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.stores.watched import WatchedFileIO
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.runner.lake import target_of
from lakecore.jobs.versions import rollback
from lakecore.metadata.schema_change import AddColumn, SetOption
from lakecore.store.cache.limits import CacheLimits
from lakecore.store.cache.reading_stores import CachedSnapshots, ReadingStores
from lakecore.store.cache.table_cache import TableCache
from lakecore.store.snapshots import SnapshotStore
from lakecore.table import Table
from lakecore.types.datatypes import parse_type
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import memory_catalog, put, rows_of
from tests.support.maintained import OWNER, views

KEYED = {
    "columns": ["k INT", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true"},
}
PARTED = {"columns": ["k INT", "p STRING"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
STEPS = 45


def cached(lake: FilesystemCatalog, **limits: int) -> FilesystemCatalog:
    """The same warehouse as another process opens it, with a cache."""
    cache = TableCache(CacheLimits(**{"snapshots": 20, "partitions": 100, **limits}), lake.clock)
    return replace(lake, file_io=WatchedFileIO(lake.file_io, cache), table_cache=cache)


def roll_back(lake: FilesystemCatalog, snapshot: int, name: str = "d.t") -> None:
    job = rollback.RollbackTo(table=name, snapshot=snapshot, safety=OWNER)
    rollback.run(job, lake, clock=lake.clock)


def compacted(lake: FilesystemCatalog, name: str = "d.t") -> None:
    compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), lake)


class Requests(MemoryFileIO):
    """Notes what storage is asked."""

    asked: list[str]

    def read(self, path: str) -> bytes:
        self.asked.append("read " + "/".join(path.split("/")[-2:]))
        return super().read(path)

    def list(self, path: str) -> Any:
        self.asked.append("list " + path.split("/")[-1])
        return super().list(path)

    def stat(self, path: str) -> Any:
        self.asked.append("stat " + "/".join(path.split("/")[-2:]))
        return super().stat(path)


def counted(name: str) -> tuple[FilesystemCatalog, Requests]:
    lake = memory_catalog(name)
    storage = Requests(name)
    storage.asked = []
    return replace(lake, file_io=storage), storage


def test_a_second_scan_asks_for_the_newest_snapshot_only() -> None:
    lake, storage = counted("second-scan")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    catalog = cached(lake)
    for expected in (5, 2):
        storage.asked.clear()
        catalog.load_table("d.t").scan()
        assert len(storage.asked) == expected, storage.asked
    assert storage.asked == ["read snapshot/LATEST", "read snapshot/snapshot-2"]
    storage.asked.clear()
    lake.load_table("d.t").scan()
    assert storage.asked == [
        "list schema",
        "read schema/schema-0",
        "read snapshot/LATEST",
        "read snapshot/snapshot-2",
        "read snapshot/snapshot-1",
    ]


def test_a_second_list_of_partitions_asks_nothing() -> None:
    lake, storage = counted("second-partitions")
    put(lake.create_table("d.t", PARTED), [{"k": 1, "p": "a"}, {"k": 2, "p": "b"}])
    catalog = cached(lake)
    listed = catalog.partitions.list("d.t")
    storage.asked.clear()
    assert catalog.partitions.list("d.t") == listed == lake.partitions.list("d.t")
    assert [one.spec for one in catalog.partitions.list("d.t", where="p > 'a'")] == [{"p": "b"}]
    assert [one.spec for one in catalog.partitions.list("d.t", partitions="p=a")] == [{"p": "a"}]
    storage.asked.clear()
    catalog.partitions.list("d.t")
    assert storage.asked == []
    put(lake.load_table("d.t"), [{"k": 3, "p": "c"}])
    assert catalog.partitions.list("d.t") == listed
    catalog.partitions.drop("d.t", "p=a")
    assert [one.spec for one in catalog.partitions.list("d.t")] == [{"p": "b"}, {"p": "c"}]
    small = cached(lake, partitions=1)
    for _ in range(2):
        storage.asked.clear()
        assert len(small.partitions.list("d.t")) == 2
        assert storage.asked != []


def test_snapshots_of_a_table_are_bounded() -> None:
    lake, storage = counted("bounded")
    put(lake.create_table("d.t", KEYED), *([{"k": 1, "v": value}] for value in "abcd"))
    table = cached(lake, snapshots=2).load_table("d.t")
    for one in (1, 2, 3):
        table.scan(snapshot=one)
    for one, reads in ((3, 0), (2, 0), (1, 1)):
        storage.asked.clear()
        table.scan(snapshot=one)
        assert len(storage.asked) == reads


def test_a_stale_snapshot_is_forgotten_in_time() -> None:
    lake = memory_catalog("stale")
    clock = cast("FakeClock", lake.clock)
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    catalog = cached(lake, after_write_ms=10_000)
    assert rows_of(catalog.load_table("d.t")) == [(1, "b")]
    roll_back(lake, 1)
    assert rows_of(catalog.load_table("d.t")) == [(1, "a")]  # the hint tells of it
    put(lake.load_table("d.t"), [{"k": 1, "v": "c"}])
    assert rows_of(catalog.load_table("d.t")) == [(1, "b")]  # the id has another snapshot
    clock.sleep(10)
    assert rows_of(catalog.load_table("d.t")) == [(1, "c")]


def test_a_stale_snapshot_without_its_files_is_an_error_once() -> None:
    lake = memory_catalog("replaced")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    catalog = cached(lake)
    assert rows_of(catalog.load_table("d.t")) == [(1, "b")]
    removed = lake.load_table("d.t").snapshot(2)
    roll_back(lake, 1)
    put(lake.load_table("d.t"), [{"k": 1, "v": "c"}])
    lake.file_io.delete(f"{lake.warehouse}/d.db/t/manifest/{removed.delta_manifest_list}")
    with pytest.raises(NotFoundError, match="removed or replaced by another process after the cache"):
        rows_of(catalog.load_table("d.t"))
    assert rows_of(catalog.load_table("d.t")) == [(1, "c")]
    latest = lake.load_table("d.t").latest_snapshot()
    assert latest is not None
    lost = f"{lake.warehouse}/d.db/t/manifest/{latest.base_manifest_list}"
    lake.file_io.delete(lost)
    with pytest.raises(CorruptDataError, match="needs a file that does not exist"):
        rows_of(catalog.load_table("d.t"))


def test_a_commit_never_builds_on_what_the_cache_has() -> None:
    lake = memory_catalog("commit")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    catalog = cached(lake)
    assert rows_of(catalog.load_table("d.t")) == [(1, "a"), (2, "b")]
    roll_back(lake, 1)
    put(lake.load_table("d.t"), [{"k": 3, "v": "c"}])
    put(catalog.load_table("d.t"), [{"k": 4, "v": "d"}])
    for one in (lake, catalog):
        assert rows_of(one.load_table("d.t")) == [(1, "a"), (3, "c"), (4, "d")]
    lake.alter_table("d.t", AddColumn(path=("n",), type=parse_type("INT")))
    put(catalog.load_table("d.t"), [{"k": 5, "v": "e", "n": 7}])
    for one in (lake, catalog):
        assert rows_of(one.load_table("d.t"), where="k > 3") == [(4, "d", None), (5, "e", 7)]


def test_work_of_another_process_is_not_undone() -> None:
    lake = memory_catalog("chores")
    put(lake.create_table("d.t", KEYED), *([{"k": key % 3, "v": str(key)}] for key in range(5)))
    catalog = cached(lake)
    expected = rows_of(catalog.load_table("d.t"))
    compacted(lake)
    job = expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(job, lake, clock=lake.clock)
    compacted(catalog)
    put(catalog.load_table("d.t"), [{"k": 9, "v": "z"}])
    assert rows_of(lake.load_table("d.t")) == rows_of(catalog.load_table("d.t")) == [*expected, (9, "z")]
    expire_snapshots.run(job, catalog, clock=lake.clock)
    assert rows_of(lake.load_table("d.t")) == rows_of(catalog.load_table("d.t")) == [*expected, (9, "z")]


def test_a_table_that_another_process_dropped_is_not_found() -> None:
    lake = memory_catalog("dropped")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    catalog = cached(lake)
    rows_of(catalog.load_table("d.t"))
    lake.drop_table("d.t")
    assert not catalog.table_exists("d.t")
    handle = catalog.load_table("d.t")
    for ask in (handle.scan, lambda: put(handle, [{"k": 2, "v": "b"}]), handle.latest_snapshot):
        with pytest.raises(NotFoundError):
            ask()
    with pytest.raises(NotFoundError):
        catalog.load_table("d.t")
    lake.create_table("d.t", {"columns": ["x BIGINT"]})
    put(catalog.load_table("d.t"), [{"x": 5}])
    assert rows_of(catalog.load_table("d.t")) == [(5,)]


def test_a_column_that_another_process_added_is_found() -> None:
    lake = memory_catalog("column")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    catalog = cached(lake)
    rows_of(catalog.load_table("d.t"))
    lake.alter_table("d.t", AddColumn(path=("n",), type=parse_type("INT")))
    handle = catalog.load_table("d.t")
    assert rows_of(handle) == [(1, "a")]
    assert rows_of(handle, columns=["n"]) == [(None,)]
    assert handle.schema.row_type.names == ("k", "v", "n")
    assert rows_of(catalog.load_table("d.t")) == [(1, "a", None)]


def changed_by_us(chance: random.Random, catalog: FilesystemCatalog, name: str) -> str:
    """One change through the catalog with the cache. Returns what it was."""
    other = "d.u" if name == "d.t" else "d.t"
    kinds = ["write", "write", "write", "compact", "expire", "rollback", "alter", "drop", "rename", "branch"]
    kind = chance.choice(kinds) if catalog.table_exists(name) else "create"
    match kind:
        case "create":
            catalog.create_table(name, KEYED)
        case "write":
            put(catalog.load_table(name), [{"k": chance.randrange(9), "v": chance.choice("xyz")}])
        case "compact":
            compacted(catalog, name)
        case "expire":
            job = expire_snapshots.Job(table=name, retain_max=2, retain_min=1, safety=OWNER)
            expire_snapshots.run(job, catalog, clock=catalog.clock)
        case "rollback":
            roll_back(catalog, chance.choice(catalog.load_table(name)._stores.snapshots.list_ids()), name)
        case "alter":
            catalog.alter_table(name, SetOption("num-levels", "9"))
        case "drop":
            catalog.drop_table(name, purge=chance.random() < 0.5)
        case "branch":
            put(catalog.load_table(name).at_branch("b"), [{"k": 0, "v": "b"}])
        case _:
            catalog.rename_table(name, other)
    return kind


@pytest.mark.parametrize("seed", range(2))
def test_own_changes_are_seen_at_once_and_lose_nothing(seed: int) -> None:
    """Others change the tables between, so that the cache is stale whenever this process changes something."""
    lake = memory_catalog(f"own-{seed}")
    chance = random.Random(seed)
    catalog, done = cached(lake), dict[str, int]()
    for _ in range(STEPS):
        name = chance.choice(["d.t", "d.u"])
        for one in ("d.t", "d.u"):  # the cache has both
            if catalog.table_exists(one):
                _known(catalog, one)
        by_us = chance.random() < 0.6
        before = rows_of(lake.load_table(name)) if lake.table_exists(name) else []
        try:
            kind = changed_by_us(chance, catalog if by_us else lake, name)
        except (LakeError, IndexError) as err:
            kind = type(err).__name__
        done[kind] = done.get(kind, 0) + 1
        if not by_us:
            continue
        for one in ("d.t", "d.u"):
            assert catalog.table_exists(one) == lake.table_exists(one)
        if lake.table_exists(name):
            fresh, ours = lake.load_table(name), catalog.load_table(name)
            if kind == "write":
                assert {row[0] for row in before} <= {row[0] for row in rows_of(fresh)}
            if kind in ("write", "compact", "expire", "rollback", "alter", "create"):
                assert views(ours) == views(fresh), kind
                assert catalog.partitions.list(name) == lake.partitions.list(name)
                assert ours.scan().source.context.schema == fresh.schema  # type: ignore[attr-defined]
    assert len(done) > 6, done


def _known(catalog: FilesystemCatalog, name: str) -> None:
    try:
        rows_of(catalog.load_table(name))
        catalog.partitions.list(name)
    except LakeError:
        pass  # a stale snapshot whose files are gone


def test_nobody_but_scans_gets_what_the_cache_has() -> None:
    lake = memory_catalog("doors")
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    catalog = cached(lake)
    catalog.load_table("d.t").scan()
    table = catalog.load_table("d.t")
    assert isinstance(table, CachedTable)
    reading = cast("Any", table.scan().source).scanner.stores
    assert isinstance(reading, ReadingStores)
    assert isinstance(reading.snapshots, CachedSnapshots)
    snapshot = reading.snapshots.load(1)
    for change in (
        lambda: reading.snapshots.publish(replace(snapshot, id=2)),
        lambda: reading.schemas.publish(replace(reading.schema, id=1)),
        lambda: reading.file_io.delete(reading.paths.snapshot(1)),
        lambda: replace(table._reads).write(pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]})),
    ):
        with pytest.raises(UnsupportedError, match="a scan of a catalog with a cache changes nothing"):
            change()
    for stores in (
        table._stores,
        target_of(table, catalog, catalog.clock).stores,
        table._committer()._stores,
    ):
        assert type(stores.snapshots) is SnapshotStore
        assert not isinstance(stores, ReadingStores)
    other = table.with_options({"source.split.target-size": "7 mb"})
    assert isinstance(other, CachedTable)
    assert type(other._stores.snapshots) is SnapshotStore
    assert other.schema.options["source.split.target-size"] == "7 mb"
    assert type(replace(table, _stores=table._stores)) is Table
    for copy in (pickle.loads(pickle.dumps(table)), pickle.loads(pickle.dumps(catalog)).load_table("d.t")):
        assert type(copy) is Table
        assert rows_of(copy) == [(1, "a")]
    scan = pickle.loads(pickle.dumps(table.scan()))
    assert scan.source.scanner.stores.cache is None
    assert scan.to_arrow().num_rows == 1
    assert repr(table) == repr(lake.load_table("d.t"))


def test_storage_that_fails_leaves_nothing_stale() -> None:
    for number in itertools.count(1, 4):
        lake = memory_catalog("failing-cache")
        put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
        storage = FaultyFileIO(lake.file_io, fail_at=10**9, mode=FaultMode.ERROR_AFTER_EFFECT)
        catalog = cached(replace(lake, file_io=storage))
        assert rows_of(catalog.load_table("d.t")) == [(1, "b")]
        storage.fail_at = storage.count + number
        try:
            roll_back(catalog, 1)
            put(catalog.load_table("d.t"), [{"k": 1, "v": "c"}])
        except LakeError:
            pass
        fired, storage.fail_at = storage.fired, 0
        assert rows_of(catalog.load_table("d.t")) == rows_of(lake.load_table("d.t")), number
        if not fired:
            break
    assert number > 10


def test_a_user_of_paimons_privileges_is_asked_for_rights_each_time(tmp_path: Any) -> None:
    options = {
        "cache-enabled": "true",
        "cache.snapshot.max-num-per-table": "9",
        "cache.partition.max-num": "9",
    }
    lake = load_catalog(tmp_path)
    put(lake.create_table("d.t", KEYED), [{"k": 1, "v": "a"}])
    assert lake.privileges is not None
    lake.privileges.init("secret")
    root = {"user": "root", "password": "secret"}
    catalog = FilesystemCatalog.open(CatalogConfig(str(tmp_path), {**options, **root}))
    assert catalog.table_cache is not None
    for _ in range(2):
        assert type(catalog.load_table("d.t")) is Table
        assert len(catalog.partitions.list("d.t")) == 1
    assert catalog.table_cache.table(("d", "t", "main")) is None
    assert catalog.table_cache.partitions(("d", "t", "main")) is None


def test_the_options_make_it(tmp_path: Any) -> None:
    lake = load_catalog(tmp_path, **{"cache-enabled": "true", "cache.partition.max-num": "7"})
    assert lake.table_cache is not None
    assert (lake.table_cache.limits.partitions, lake.table_cache.limits.snapshots) == (7, 0)
    lake.create_table("d.t", KEYED)
    assert type(lake.load_table("d.t")) is Table
    assert load_catalog(tmp_path, **{"cache-enabled": "true"}).table_cache is None
