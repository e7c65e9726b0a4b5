"""The cache of decoded manifests: bounds, age, other processes, and its options."""

from __future__ import annotations

import os
import pickle
import random
import sys
import threading
import tracemalloc

import pytest

from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.format.manifest.manifests import decode_manifests, encode_manifest
from lakecore.metadata.manifest.entry_request import EntryRequest
from lakecore.store.cache.limits import CacheLimits
from lakecore.store.cache.manifest_cache import ManifestCache, open_cache
from tests.support.builders import data_file, manifest_entry
from tests.support.fake_clock import FakeClock

MB = 1 << 20


def cache(clock: FakeClock | None = None, **limits: int) -> ManifestCache:
    return ManifestCache(CacheLimits(**limits), clock or FakeClock())


def test_the_least_recently_used_leaves_first() -> None:
    kept = cache(memory=10)
    for key in "abc":
        kept.put(key, key, 3)
    assert kept.get("a") == "a"
    kept.put("d", "d", 3)
    assert [kept.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    kept.put("e", "e", 11)
    assert (kept.get("e"), kept.size, len(kept)) == (None, 9, 3)
    kept.put("d", "D", 1)
    assert (kept.get("d"), kept.size) == ("D", 7)


def test_vectors_are_bounded() -> None:
    kept = cache(memory=100, vectors=5)
    kept.put("a", 1, 1, 3)
    kept.put("b", 2, 1, 3)
    assert (kept.get("a"), kept.get("b"), kept.vectors) == (None, 2, 3)
    kept.put("c", 3, 1, 6)
    assert (kept.get("c"), kept.get("b")) == (None, 2)


def test_what_is_old_or_unused_is_forgotten() -> None:
    clock = FakeClock()
    kept = cache(clock, memory=100, after_access_ms=10, after_write_ms=25)
    for key in "ab":
        kept.put(key, key, 1)
    for _ in range(2):
        clock.sleep(0.009)
        assert kept.get("a") == "a"
    assert kept.get("b") is None
    clock.sleep(0.007)
    assert kept.get("a") is None
    assert kept.size == 0


def test_no_other_process_has_it() -> None:
    kept = cache(memory=100)
    kept.put("a", "a", 1)
    assert pickle.loads(pickle.dumps(kept)) is None
    with kept._lock:  # another thread of the parent may hold it when the process forks
        child = os.fork()
        if child == 0:
            try:
                ok = kept.get("a") is None and kept.size == 0
                kept.put("b", "b", 1)
                os._exit(0 if ok and kept.get("b") == "b" else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert kept.get("a") == "a"


def test_threads_keep_within_the_bound() -> None:
    kept, wrong = cache(memory=50, vectors=20), []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(3000):
            key = chance.randrange(30)
            if chance.random() < 0.5:
                kept.put(key, key, 1 + key % 7, key % 3)
            elif kept.get(key) not in (None, key):
                wrong.append(key)
            if kept.size > 57 or kept.vectors > 22:  # one more than the bound, amid a change
                wrong.append(kept.size)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert kept.size == sum(one.size for one in kept._items.values()) <= 50
    assert kept.vectors == sum(one.vectors for one in kept._items.values()) <= 20


@pytest.mark.parametrize("count", [30, 2100])
@pytest.mark.parametrize("keys", [True, False])
def test_memory_is_counted(count: int, keys: bool) -> None:
    entries = [
        manifest_entry(data_file(f"data-{i:040}.parquet", keys=(i, i + 1), level=1)) for i in range(count)
    ]
    data = encode_manifest(entries)
    decode_manifests([(data, "m")], EntryRequest(keys=keys))
    tracemalloc.start()
    try:
        own = decode_manifests([(bytes(bytearray(data)), "m")], EntryRequest(keys=keys)).own_copy().frozen()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken * 0.8 < own.memory < taken * 3 + 20_000
    assert own.rows() == entries
    parts = [own.select(slice(low, low + 7)).own_copy() for low in range(0, min(count, 350), 7)]
    assert [row for part in parts for row in part.without_cache().rows()] == entries[:350]
    assert [name for part in parts for name in part.names()] == own.names()[:350]


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, None),
        ({"cache-enabled": "false"}, None),
        ({"cache-enabled": "true"}, CacheLimits()),
        (
            {"cache.manifest.small-file-memory": "10 mb", "cache.manifest.small-file-threshold": "5 kb"},
            CacheLimits(memory=10 * MB, threshold=5 << 10),
        ),
        ({"cache.manifest.max-memory": "1 gb"}, CacheLimits(memory=1024 * MB, threshold=sys.maxsize)),
        ({"cache.manifest.max-memory": "1 mb"}, CacheLimits()),
        ({"cache.expiration-interval": "5 s"}, CacheLimits(after_access_ms=5000)),
        (
            {"cache.expire-after-access": "1 s", "cache.expire-after-write": "2 s"},
            CacheLimits(after_access_ms=1000, after_write_ms=2000),
        ),
        ({"cache.deletion-vectors.max-num": "0"}, CacheLimits(vectors=0)),
        ({"cache.snapshot.max-num-per-table": "20"}, CacheLimits(snapshots=20)),
        ({"cache.partition.max-num": "1000"}, CacheLimits(partitions=1000)),
    ],
)
def test_options(options: dict[str, str], limits: CacheLimits | None) -> None:
    if options and "cache-enabled" not in options:
        with pytest.raises(UnsupportedError, match=f"{min(options)}: .*without cache-enabled=true"):
            open_cache(options, FakeClock())
        options = {"cache-enabled": "true", **options}
    kept = open_cache(options, FakeClock())
    assert (None if kept is None else kept.limits) == limits


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cache.expire-after-access", "0 s"),
        ("cache.expire-after-write", "-1 s"),
        ("cache.manifest.max-memory", "-1"),
        ("cache.deletion-vectors.max-num", "-5"),
        ("cache.snapshot.max-num-per-table", "-1"),
        ("cache.partition.max-num", "many"),
        ("cache.manifest.small-file-memory", "much"),
        ("cache-enabled", "yes"),
    ],
)
def test_options_that_are_none(key: str, value: str) -> None:
    with pytest.raises(InvalidOptionError, match=key.replace(".", r"\.")):
        CacheLimits.from_options({"cache-enabled": "true", key: value})


def test_zero_says_what_is_done_without_a_cache() -> None:
    same = {"cache.snapshot.max-num-per-table": "0", "cache.partition.max-num": "0"}
    assert CacheLimits.from_options(same) is None
