"""The local query: keys, filters, refresh, refusals, and many threads at once."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.jobs import compact, expire_snapshots
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.store.snapshots import SnapshotStore
from tests.support.fault_fs import FaultyFileIO
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, live_files, memory_catalog, put


def keys(*values: int | None) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int32())})


def test_the_newest_row_of_a_key() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}], [{"k": 1, "v": "new"}], [{"k": 2, "_kind": "-D"}])
    with table.new_query() as query:
        assert query.lookup((), 0, (1,)) is None
        assert query.refresh() == 3
        assert query.lookup((), 0, (1,)) == {"k": 1, "v": "new"}
        assert query.lookup((), 0, (2,)) is None
        found = query.lookup_in_bucket((), 0, keys(2, 1, 9, None, 1))
        assert found.matches.to_pylist() == [False, True, False, False, True]
        assert found.rows.column("v").to_pylist() == [None, "new", None, None, "new"]
        assert query.lookup((), 0, (None,)) is None
        assert query.lookup((), 7, (1,)) is None


def test_files_are_refreshed_by_hand() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}])
    (old,) = live_files(table)
    with table.new_query() as query:
        with pytest.raises(InvalidInputError, match="its first files must come without files before"):
            query.refresh_files((), 0, [old], [])
        query.refresh_files((), 0, [], [old])
        assert query.lookup((), 0, (1,)) == {"k": 1, "v": "a"}
        table.overwrite(pa.table({"k": pa.array([1], pa.int32()), "v": ["b"]}))
        (new,) = live_files(table)
        query.refresh_files((), 0, [old], [new])
        assert query.lookup((), 0, (1,)) == {"k": 1, "v": "b"}
        with pytest.raises(InvalidInputError, match="the query does not have it"):
            query.refresh_files((), 0, [old], [])


def test_a_row_that_is_filtered_out_hides_older_ones() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "keep"}, {"k": 2, "v": "keep"}], [{"k": 1, "v": "other"}])
    with table.new_query(["k"], where="v = 'keep'") as query:
        query.refresh()
        assert query.lookup((), 0, (1,)) is None
        assert query.lookup((), 0, (2,)) == {"k": 2}
        assert query.lookup_table(keys(1, 2)).matches.to_pylist() == [False, True]


def test_files_of_writers_at_the_same_time_compare_sequence_numbers() -> None:
    """The second file has the higher numbers, but an older row of key 5 than the first."""
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": "a"} for k in range(9)])
    put(table, [{"k": k, "v": "b"} for k in (0, 5)])
    first, second = sorted(live_files(table), key=lambda file: file.max_sequence_number)
    with table.new_query() as query:
        query.refresh_files((), 0, [], [second, _with_numbers(first, 0, 20)])
        assert query.lookup((), 0, (5,)) == {"k": 5, "v": "b"}
        assert query.lookup_in_bucket((), 0, keys(*range(9))).rows.column("v").to_pylist() == [
            "b" if k in (0, 5) else "a" for k in range(9)
        ]


def _with_numbers(file: Any, low: int, high: int) -> Any:
    return replace(file, min_sequence_number=low, max_sequence_number=high)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"merge_engine": "partial-update"}, "merge-engine=partial-update"),
        ({"merge_engine": "aggregation"}, "merge-engine=aggregation"),
        ({"sequence__field": "v"}, "sequence.field=v"),
        ({"sequence__snapshot_ordering": "true"}, "sequence.snapshot-ordering=true"),
    ],
    ids=["partial update", "aggregation", "sequence", "snapshots"],
)
def test_tables_whose_files_must_be_merged_are_refused(options: dict[str, str], problem: str) -> None:
    table = key_table(memory_catalog(), **options)
    with pytest.raises(
        UnsupportedError, match=f"option {problem}.*cannot be looked up.*set changelog-producer=lookup"
    ):
        table.new_query()


@pytest.mark.parametrize(
    "remedy", ["changelog_producer=lookup", "deletion_vectors__enabled=true", "force_lookup=true"]
)
@pytest.mark.parametrize(
    "refused", ["merge_engine=partial-update", "merge_engine=aggregation", "sequence__field=v"]
)
def test_what_a_refusal_asks_for_helps(refused: str, remedy: str) -> None:
    options = dict(text.split("=") for text in (refused, remedy))
    with key_table(memory_catalog(), **options).new_query() as query:
        assert query.refresh() is None


def test_tables_without_a_key_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="has no primary key"):
        append_table(memory_catalog()).new_query()


def test_wrong_keys_are_named() -> None:
    table = key_table(memory_catalog(), ("p INT", "k INT", "v STRING"), ("p", "k"), ("p",))
    put(table, [{"p": 1, "k": 1, "v": "a"}])
    with table.new_query() as query:
        query.refresh()
        with pytest.raises(InvalidInputError, match=r"a key has 1 values \(k\), but 2 were given"):
            query.lookup((1,), 0, (1, 2))
        with pytest.raises(InvalidInputError, match=r"a partition has 1 values \(p\), but 0 were given"):
            query.lookup((), 0, (1,))
        with pytest.raises(InvalidInputError, match="key k='x': not a value of type int32"):
            query.lookup((1,), 0, ("x",))
        with pytest.raises(InvalidInputError, match="keys need the columns p, but p is missing"):
            query.lookup_table(keys(1))
        query.close()
        with pytest.raises(InvalidInputError, match="is closed"):
            query.lookup((1,), 0, (1,))
        query.close()


@pytest.mark.parametrize(("kind", "bits"), [("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)])
def test_the_ends_of_whole_numbers(kind: str, bits: int) -> None:
    """A number beyond an end is no key; the bytes that fit its type would be those of another one."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    table = memory_catalog().create_table(
        "d.ends", {"columns": [f"k {kind}", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    )
    put(table, [{"k": low, "v": "low"}, {"k": high, "v": "high"}])
    with table.new_query() as query:
        query.refresh()
        assert [query.lookup((), 0, (k,)) for k in (low, high)] == [
            {"k": low, "v": "low"},
            {"k": high, "v": "high"},
        ]
        for number in (low - 1, high + 1):
            with pytest.raises(InvalidInputError, match=f"key k={number}: not a value of type int{bits}"):
                query.lookup((), 0, (number,))


def test_a_data_file_that_expired_is_an_error_where_the_caller_refreshes() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}])
    (file,) = live_files(table)
    with table.new_query(cache=LookupCache()) as query:
        query.refresh_files((), 0, [], [file])
        table._stores.file_io.delete(table._read_context().data_path(bytes(12), 0, file))
        with pytest.raises(NotFoundError, match="may have expired"):
            query.lookup((), 0, (1,))


@pytest.mark.parametrize("file", ["manifest list", "index manifest"])
def test_a_first_snapshot_that_expires_while_it_is_read(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query begins with the latest snapshot, which is another one by the time its files are read."""
    table = key_table(memory_catalog(), deletion_vectors__enabled="true")
    put(table, [{"k": 1, "v": "old"}])
    old = table.latest_snapshot()
    assert old is not None
    put(table, [{"k": 1, "v": "new"}])
    old = (
        replace(old, base_manifest_list="gone")
        if file == "manifest list"
        else replace(old, index_manifest="gone")
    )
    table._stores.file_io.delete(f"{table.path}/snapshot/snapshot-1")
    real, answers = SnapshotStore.latest, [old, old]
    monkeypatch.setattr(SnapshotStore, "latest", lambda store: answers.pop() if answers else real(store))
    with table.new_query() as query:
        assert query.refresh() == 2
    assert answers == []


@pytest.mark.parametrize("width", [300, 3], ids=["all long", "one long"])
def test_long_keys(width: int) -> None:
    """Packed, or compared one by one where packed keys would be mostly padding."""
    table = key_table(memory_catalog(), ("a STRING", "b STRING", "v INT"), ("a", "b"))
    rows = [{"a": "x" * width + str(n), "b": "y" * (n % 5), "v": n} for n in range(500)]
    rows.append({"a": "z" * 300, "b": "", "v": 500})
    put(table, rows, [{**row, "v": -row["v"]} for row in rows[::7]])
    wanted = pa.Table.from_pylist([{"a": row["a"], "b": row["b"]} for row in rows])
    with table.new_query() as query:
        query.refresh()
        expected = [-n if n % 7 == 0 else n for n in range(501)]
        assert query.lookup_table(wanted).rows.column("v").to_pylist() == expected
        assert query.lookup((), 0, ("x" * width + "7", "yy")) == {**rows[7], "v": -7}
        assert query.lookup((), 0, ("x" * width + "7", "y")) is None


def test_storage_that_fails_once_fails_one_call_only() -> None:
    """Whatever operation fails, the next call answers, and a value is never wrong."""
    table = key_table(memory_catalog("faults"), deletion_vectors__enabled="false")
    put(table, [{"k": k, "v": "a"} for k in range(9)], [{"k": k, "v": "b"} for k in range(5)])
    fired = 0
    for number in itertools.count(1):
        storage = FaultyFileIO(table._stores.file_io, fail_at=number)
        faulty = with_stores(table, file_io=storage)
        cache = LookupCache()
        with faulty.new_query(cache=cache) as query:
            for _ in range(4):
                try:
                    query.refresh()
                    assert query.lookup((), 0, (3,)) == {"k": 3, "v": "b"}
                    assert query.lookup((), 0, (8,)) == {"k": 8, "v": "a"}
                    break
                except UnavailableError:
                    fired += 1
            else:
                raise AssertionError(number)
        assert (cache.disk_size, cache.memory_size) == (0, 0)
        if not storage.fired:
            break
    assert fired > 5


def chores(catalog: FilesystemCatalog, number: int) -> None:
    """A compaction at some commits, an expiry at others."""
    if number % 5 == 0:
        job = compact.Job(table="d.k", strategy=compact.Strategy.FULL, commit_identifier=number)
        compact.run(job, catalog, clock=catalog.clock)
    if number % 7 == 0:
        expiry = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1)
        expire_snapshots.run(expiry, catalog, clock=catalog.clock)


def test_lookups_during_writes_compactions_and_expiry() -> None:
    """A value is one that was current between the begin and the end of its lookup; there is no error."""
    seconds, count = float(os.environ.get("LAKECORE_STRESS_SECONDS", "4")), 40
    catalog = memory_catalog("busy")
    table = key_table(catalog)
    written = [0] * count  # the newest value that a commit began to write, and that it has written
    done = [0] * count
    put(table, [{"k": k, "v": "0"} for k in range(count)])
    stop, problems = threading.Event(), []

    def write() -> None:
        number, source = 0, random.Random(1)
        while not stop.is_set():
            number += 1
            some = source.sample(range(count), 9)
            for k in some:
                written[k] = number
            put(table, [{"k": k, "v": str(number)} for k in some])
            for k in some:
                done[k] = number
            chores(catalog, number)

    def ask(seed: int) -> None:
        source = random.Random(seed)
        with table.new_query(cache=cache) as query:
            try:
                while not stop.is_set():
                    before = list(done)
                    query.refresh()
                    some = source.sample(range(count), 5)
                    found = query.lookup_table(keys(*some)).rows.column("v").to_pylist()
                    one = query.lookup((), 0, (some[0],))
                    after = list(written)
                    values = [*zip(some, found, strict=True), (some[0], one and one["v"])]
                    problems.extend(
                        (k, before[k], value, after[k])
                        for k, value in values
                        if value is None or not before[k] <= int(value) <= after[k]
                    )
            except Exception as err:
                problems.append(err)
                raise

    cache = LookupCache()
    threads = [threading.Thread(target=write), *(threading.Thread(target=ask, args=(n,)) for n in range(3))]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while time.monotonic() < began + seconds or (max(done) <= 5 and time.monotonic() < began + 120):
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert max(done) > 5
