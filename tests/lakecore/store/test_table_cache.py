"""What a catalog keeps of its tables: bounds, changed paths and names, races of a read with a change."""

from __future__ import annotations

import os
import pickle

import pytest

from lakecore.errors import CommitUncertainError, LakeError
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.stores.watched import WatchedFileIO
from lakecore.store.cache.limits import CacheLimits
from lakecore.store.cache.table_cache import TableCache
from tests.support.builders import snapshot
from tests.support.fake_clock import FakeClock

ROOT, BRANCH = "/w/d.db/t", "/w/d.db/t/branch/branch-b"


def full_cache() -> TableCache:
    """With two tables, a branch of one, their lists of partitions and a snapshot of each."""
    cache = TableCache(CacheLimits(snapshots=2, partitions=10), FakeClock())
    for name, root in (
        (("d", "t", "main"), ROOT),
        (("d", "t", "b"), ROOT),
        (("d", "tt", "main"), "/w/d.db/tt"),
    ):
        cache.put_table(name, root, root, cache.changes())
        cache.put_partitions(name, root, root, 2, cache.changes())
    for root in (ROOT, BRANCH, "/w/d.db/tt"):
        cache.put_snapshot(root, snapshot(1), cache.changes())
    return cache


def has(cache: TableCache, table: str) -> set[bool]:
    roots = (ROOT, BRANCH) if table == "t" else (f"/w/d.db/{table}",)
    names = [("d", table, branch) for branch in ("main", "b")[: len(roots)]]
    found = [cache.table(one) is not None for one in names] + [
        cache.partitions(one) is not None for one in names
    ]
    return {*found, *(cache.snapshot(root, 1) is not None for root in roots)}


@pytest.mark.parametrize(
    ("path", "is_directory", "left"),
    [
        (f"{ROOT}/snapshot/snapshot-2", False, (False, True)),
        (f"{ROOT}/snapshot/LATEST", False, (False, True)),
        (f"{ROOT}/schema/schema-1", False, (False, True)),
        (f"{BRANCH}/snapshot/snapshot-2", False, (False, True)),
        (f"{ROOT}/bucket-0/data-1.parquet", False, (True, True)),
        (f"{ROOT}/manifest/manifest-1", False, (True, True)),
        (ROOT, True, (False, True)),
        (f"{ROOT}/", True, (False, True)),
        ("/w/d.db", True, (False, False)),
        ("/w/d.db/tt/snapshot", True, (True, False)),
        ("/w/d.db/other", True, (True, True)),
    ],
)
def test_a_changed_path_is_forgotten(path: str, is_directory: bool, left: tuple[bool, bool]) -> None:
    cache = full_cache()
    assert has(cache, "t") == has(cache, "tt") == {True}
    cache.path_changed(path, is_directory=is_directory)
    assert (has(cache, "t"), has(cache, "tt")) == ({left[0]}, {left[1]})


def test_a_changed_name_is_forgotten_whatever_its_case() -> None:
    cache = full_cache()
    cache.forget_name("D", "T")
    assert (has(cache, "t"), has(cache, "tt")) == ({False}, {True})


def test_what_was_read_before_a_change_is_not_kept() -> None:
    cache = full_cache()
    changes = cache.changes()
    cache.path_changed(f"{ROOT}/snapshot/snapshot-1", is_directory=False)
    cache.put_table(("d", "t", "main"), ROOT, "old", changes)
    cache.put_partitions(("d", "t", "main"), ROOT, "old", 1, changes)
    cache.put_snapshot(ROOT, snapshot(1), changes)
    assert has(cache, "t") == {False}
    cache.put_snapshot(ROOT, snapshot(1), cache.changes())
    assert cache.snapshot(ROOT, 1) == snapshot(1)


def test_nothing_is_kept_without_its_option() -> None:
    cache = TableCache(CacheLimits(partitions=2), FakeClock())
    cache.put_table(("d", "t", "main"), ROOT, "table", 0)
    cache.put_snapshot(ROOT, snapshot(1), 0)
    assert (cache.table(("d", "t", "main")), cache.snapshot(ROOT, 1)) == (None, None)
    cache.put_partitions(("d", "t", "main"), ROOT, "list", 3, 0)
    assert cache.partitions(("d", "t", "main")) is None
    cache.put_partitions(("d", "t", "main"), ROOT, "list", 2, 0)
    assert cache.partitions(("d", "t", "main")) == "list"


def test_no_other_process_has_it() -> None:
    cache = full_cache()
    assert pickle.loads(pickle.dumps(cache)) is None
    with cache._lock:  # another thread of the parent may hold it when the process forks
        child = os.fork()
        if child == 0:
            try:
                cache.put_snapshot(ROOT, snapshot(2), cache.changes())
                os._exit(0 if cache.snapshot(ROOT, 1) is None and cache.snapshot(ROOT, 2) else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert cache.snapshot(ROOT, 1) is not None


class Watch:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def path_changed(self, path: str, *, is_directory: bool) -> None:
        self.told.append((path, is_directory))


class Failing(MemoryFileIO):
    """Reports an error after each change."""

    def publish(self, path: str, data: bytes) -> bool:
        super().publish(path, data)
        raise CommitUncertainError(path)

    def delete(self, path: str) -> None:
        super().delete(path)
        raise CommitUncertainError(path)


def test_each_change_is_told_also_one_that_fails() -> None:
    MemoryFileIO("watched").clear()
    root, watch = "memory://watched", Watch()
    storage = WatchedFileIO(MemoryFileIO("watched"), watch)
    steps = [
        (lambda: storage.write_new(f"{root}/a/b", b"1"), [(f"{root}/a/b", False)]),
        (lambda: storage.publish(f"{root}/a/c", b"1"), [(f"{root}/a/c", False)]),
        (lambda: storage.overwrite(f"{root}/a/c", b"2"), [(f"{root}/a/c", False)]),
        (
            lambda: storage.move(f"{root}/a/c", f"{root}/a/d"),
            [(f"{root}/a/c", False), (f"{root}/a/d", False)],
        ),
        (lambda: storage.delete(f"{root}/a/d"), [(f"{root}/a/d", False)]),
        (
            lambda: storage.move_directory(f"{root}/a", f"{root}/b"),
            [(f"{root}/a", True), (f"{root}/b", True)],
        ),
        (lambda: storage.remove_directory(f"{root}/c"), [(f"{root}/c", True)]),
        (lambda: storage.make_directory(f"{root}/e"), []),
        (lambda: storage.read(f"{root}/b/b"), []),
        (lambda: storage.list(f"{root}/b"), []),
        (lambda: storage.stat(f"{root}/b/b"), []),
    ]
    for change, told in steps:
        watch.told.clear()
        change()  # type: ignore[no-untyped-call]
        assert watch.told == told
    failing = WatchedFileIO(Failing("watched"), watch)
    for fails in (lambda: failing.publish(f"{root}/f", b""), lambda: failing.delete(f"{root}/f")):
        watch.told.clear()
        with pytest.raises(LakeError):
            fails()
        assert watch.told == [(f"{root}/f", False)]
