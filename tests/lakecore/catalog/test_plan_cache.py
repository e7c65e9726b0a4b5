"""Plans with the cache of a catalog have the rows of plans without it, whatever others did to the tables between."""

from __future__ import annotations

import itertools
import pickle
import random
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError, LakeError, NotFoundError, PrivilegeError
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.table_rights import TableRights
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from lakecore.jobs.versions import branches, rollback
from lakecore.store.cache.limits import CacheLimits
from lakecore.store.cache.manifest_cache import ManifestCache
from lakecore.store.manifests import ManifestStore
from tests.support.chores import FUTURE
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.golden import golden_tables
from tests.support.lake import memory_catalog, put, rows_of
from tests.support.maintained import OWNER, views

KEYED = {
    "columns": ["k INT", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true", "manifest.merge-min-count": "3"},
}
VECTORS = {**KEYED, "options": {**KEYED["options"], "deletion-vectors.enabled": "true"}}  # type: ignore[dict-item]
APPEND = {"columns": ["k INT", "v STRING"], "options": {"manifest.merge-min-count": "3"}}
STEPS = 45


def cached(catalog: FilesystemCatalog, **limits: int) -> FilesystemCatalog:
    return replace(catalog, manifest_cache=ManifestCache(CacheLimits(**limits), catalog.clock))


def hits(catalog: FilesystemCatalog) -> ManifestCache:
    assert catalog.manifest_cache is not None
    return catalog.manifest_cache


class Reads:
    """Counts the files of manifests that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = ManifestStore._contents

        def counted(store: ManifestStore, paths: Any) -> Any:
            self.count += len(paths)
            return read(store, paths)

        monkeypatch.setattr(ManifestStore, "_contents", counted)

    def take(self) -> int:
        count, self.count = self.count, 0
        return count


def step(chance: random.Random, lake: FilesystemCatalog, name: str) -> str:
    """One change by somebody else, without the cache. Returns what it was."""
    there = lake.table_exists(name)
    kinds = ["write"] * 4 + ["compact", "expire", "rollback", "orphans", "again", "branch", "delete"]
    kind = chance.choice(kinds) if there else "create"
    match kind:
        case "create":
            lake.create_table(name, chance.choice([KEYED, VECTORS, APPEND]))
        case "write":
            rows = [{"k": chance.randrange(9), "v": chance.choice("xyz")} for _ in range(3)]
            put(lake.load_table(name), rows)
        case "delete":
            lake.load_table(name).delete(f"k = {chance.randrange(9)}")
        case "compact":
            compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), lake)
        case "expire":
            job = expire_snapshots.Job(table=name, retain_max=2, retain_min=1, safety=OWNER)
            expire_snapshots.run(job, lake, clock=lake.clock)
        case "rollback":
            ids = lake.load_table(name)._stores.snapshots.list_ids()
            if ids:
                job_back = rollback.RollbackTo(table=name, snapshot=chance.choice(ids), safety=OWNER)
                rollback.run(job_back, lake, clock=lake.clock)
        case "orphans":
            remove_orphan_files.run(remove_orphan_files.Job(table=name, safety=OWNER), lake, clock=FUTURE)
        case "branch":
            if "b" not in lake.load_table(name)._stores.branches.list():
                branches.run(
                    branches.CreateBranch(table=name, branch="b", safety=OWNER), lake, clock=lake.clock
                )
        case _:
            lake.drop_table(name, purge=chance.random() < 0.5)
            if chance.random() < 0.5 and lake.table_exists("d.other"):
                lake.rename_table("d.other", name)
    return kind


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_those_without_the_cache(seed: int) -> None:
    lake = memory_catalog(f"cached-{seed}")
    chance = random.Random(seed)
    small = [cached(lake), cached(lake, memory=20_000), cached(lake, threshold=2500), cached(lake, vectors=1)]
    done: dict[str, int] = {}
    for _ in range(STEPS):
        name = chance.choice(["d.t", "d.t", "d.other"])
        try:
            kind = step(chance, lake, name)
        except LakeError as err:
            kind = type(err).__name__
        done[kind] = done.get(kind, 0) + 1
        catalog = chance.choice(small)
        for table in ("d.t", "d.other"):
            if lake.table_exists(table):
                assert views(catalog.load_table(table)) == views(lake.load_table(table)), (kind, table)
                plan = catalog.load_table(table).scan(where="k > 3")
                assert sorted(map(str, plan.to_arrow().to_pylist())) == sorted(
                    map(str, lake.load_table(table).scan(where="k > 3").to_arrow().to_pylist())
                )
        for one in small:
            assert hits(one).size <= hits(one).limits.memory
    assert len(done) > 6, done
    assert len(hits(small[0])) > 10


def test_a_second_plan_reads_no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = memory_catalog("second-plan")
    table = lake.create_table("d.t", KEYED)
    put(table, *([{"k": i, "v": "x"}] for i in range(2)))
    reads, catalog = Reads(monkeypatch), cached(lake)
    for expected in (2, 0, 0):
        assert len(rows_of(catalog.load_table("d.t"))) == 2
        assert reads.take() == expected
    put(table, [{"k": 2, "v": "x"}])
    reads.take()
    assert len(rows_of(catalog.load_table("d.t"))) == 3
    assert reads.take() == 1
    assert len(rows_of(lake.load_table("d.t"))) == 3
    assert reads.take() == 3
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), catalog)
    assert reads.take() > 3  # chores read the files
    copy = pickle.loads(pickle.dumps(catalog.load_table("d.t")))
    assert copy._stores.manifest_cache is None
    assert len(rows_of(copy)) == 3


def test_a_scan_does_not_read_the_schema_of_its_handle_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = memory_catalog("schema-once")
    put(lake.create_table("d.t", APPEND), [{"k": 1, "v": "x"}])
    read, paths = MemoryFileIO.read, []

    def noted(storage: MemoryFileIO, path: str) -> bytes:
        paths.append(path)
        return read(storage, path)

    monkeypatch.setattr(MemoryFileIO, "read", noted)
    assert rows_of(lake.load_table("d.t")) == [(1, "x")]
    assert [path.rpartition("/")[2] for path in paths if "/schema/" in path] == ["schema-0"]


def test_a_second_list_of_partitions_reads_no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = memory_catalog("second-list")
    table = lake.create_table(
        "d.t", {"columns": ["k INT", "p STRING"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
    )
    put(table, [{"k": 0, "p": "a"}], [{"k": 1, "p": "b"}])
    reads, catalog = Reads(monkeypatch), cached(lake)
    for expected in (2, 0):
        assert [one.record_count for one in catalog.partitions.list("d.t")] == [1, 1]
        assert reads.take() == expected
    put(table, [{"k": 2, "p": "b"}])
    catalog.partitions.drop("d.t", "p=a")
    reads.take()
    assert [(one.spec, one.record_count) for one in catalog.partitions.list("d.t")] == [({"p": "b"}, 2)]
    assert reads.take() == 2
    assert catalog.partitions.list("d.t") == lake.partitions.list("d.t")


def test_a_snapshot_that_expired_is_no_snapshot() -> None:
    lake = memory_catalog("expired")
    table = lake.create_table("d.t", KEYED)
    put(table, *([{"k": 1, "v": value}] for value in "abc"))
    catalog = cached(lake)
    handle = catalog.load_table("d.t")
    assert rows_of(handle, snapshot=1) == [(1, "a")]
    scan = handle.scan(snapshot=1)
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    job = expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, safety=OWNER)
    expire_snapshots.run(job, lake, clock=lake.clock)
    with pytest.raises((NotFoundError, InvalidInputError)):
        rows_of(handle, snapshot=1)
    with pytest.raises(NotFoundError):
        scan.to_arrow()
    assert rows_of(handle) == [(1, "c")]


def test_storage_that_fails_leaves_no_wrong_plan() -> None:
    lake = memory_catalog("failing")
    table = lake.create_table("d.t", VECTORS)
    put(table, *([{"k": i % 3, "v": str(i)}] for i in range(4)))
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    expected = views(lake.load_table("d.t"))
    for number in itertools.count(1):
        storage = FaultyFileIO(lake.file_io, fail_at=number, mode=FaultMode.ERROR)
        catalog = cached(replace(lake, file_io=storage))
        failed = 0
        for _ in range(2):
            try:
                rows_of(catalog.load_table("d.t"))
            except LakeError:
                failed += 1
        fired, storage.fail_at = storage.fired, 0
        assert failed == fired
        assert views(catalog.load_table("d.t")) == expected, number
        if not fired:
            break


def test_a_user_without_rights_has_no_part_of_it() -> None:
    lake = memory_catalog("rights")
    put(lake.create_table("d.t", APPEND), [{"k": 1, "v": "x"}])
    catalog = cached(lake)
    assert len(rows_of(catalog.load_table("d.t"))) == 1
    nobody = catalog._load(
        _name("d.t"), rights=TableRights(user="u", table="d.t", select=False, insert=False)
    )
    manifests = nobody._stores.manifests_for_plans
    snapshot = lake.load_table("d.t").latest_snapshot()
    assert snapshot is not None
    with pytest.raises(PrivilegeError):
        manifests.read_list(snapshot.base_manifest_list)


def _name(text: str) -> Any:
    from lakecore.catalog.names import TableName

    return TableName.parse(text)


def test_java_s_tables_have_the_same_entries_from_the_cache() -> None:
    seen = 0
    for table in golden_tables()[::4]:
        plain = load_catalog(table.path.parent.parent)
        catalog = FilesystemCatalog.open(CatalogConfig(plain.warehouse, {"cache-enabled": "true"}))
        name = f"{table.path.parent.name.removesuffix('.db')}.{table.path.name}"
        stores = plain.load_table(name)._stores
        for snapshot_id in stores.snapshots.list_ids()[-2:]:
            snapshot = stores.snapshots.load(snapshot_id)
            manifests = stores.manifests.data_manifests(snapshot)
            expected = stores.manifests.read(manifests)
            for _ in range(2):
                ours = catalog.load_table(name)._stores.manifests_for_plans
                assert ours.data_manifests(snapshot) == manifests
                assert ours.read(manifests).rows() == expected.rows()
                index = ours.read_index(snapshot.index_manifest)
                assert index == stores.manifests.read_index(snapshot.index_manifest)
                seen += 1
    assert seen > 50


def test_the_catalog_has_it_by_option(tmp_path: Any) -> None:
    lake = load_catalog(tmp_path, **{"cache-enabled": "true", "cache.manifest.max-memory": "1 gb"})
    assert lake.manifest_cache is not None
    assert lake.manifest_cache.limits.memory == 1 << 30
    assert load_catalog(tmp_path).manifest_cache is None
    assert "cache" not in repr(lake)
