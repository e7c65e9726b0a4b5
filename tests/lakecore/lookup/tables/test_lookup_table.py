"""Lookup tables over small tables: joins equal a join that Python makes of the merged read."""

from __future__ import annotations

import gc
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError, InvalidOptionError, UnavailableError, UnsupportedError
from lakecore.jobs import compact
from lakecore.lookup.tables import cache_state, full_cache
from lakecore.lookup.tables.full_cache import FullCache
from lakecore.lookup.tables.lookup_table import KEY_ROW, LookupTable
from lakecore.table import Table
from tests.lakecore.lookup.tables.test_cache_parts import damage
from tests.support.lake import append_table, key_table, memory_catalog, put

ALWAYS = {"continuous.discovery-interval": "0 s"}
FULL = ALWAYS | {"lookup.cache": "full"}
Rows = list[dict[str, Any]]


def joined(table: Table, keys: Rows, on: tuple[str, ...], where: str | None = None) -> Counter[str]:
    """What the merged read joins to, by a nested loop."""
    rows = table.scan(where=where).to_arrow().to_pylist()
    return Counter(
        f"{number} {sorted(row.items())}"
        for number, key in enumerate(keys)
        for row in rows
        if all(key[name] is not None and row[name] == key[name] for name in on)
    )


def found(lookup: LookupTable, keys: Rows) -> Counter[str]:
    rows = lookup.lookup(pa.Table.from_pylist(keys)).to_pylist()
    assert [row[KEY_ROW] for row in rows] == sorted(row[KEY_ROW] for row in rows)
    return Counter(f"{row.pop(KEY_ROW)} {sorted(row.items())}" for row in rows)


def some_rows(random_: random.Random, *, deletes: bool) -> Rows:
    kinds = ["+I", "+I", "+I", "-D"] if deletes else ["+I"]
    return [
        {
            "k": random_.randrange(60),
            "g": random_.choice([None, *range(8)]),
            "v": random_.choice(["", "é", "x" * 40]),
            "s": random_.randrange(5),
            "_kind": random_.choice(kinds),
        }
        for _ in range(random_.randrange(1, 40))
    ]


COLUMNS = ("k INT", "g BIGINT", "v STRING", "s INT")


@pytest.mark.parametrize("mode", ["full", "memory", "auto"])
@pytest.mark.parametrize("sequence", [None, "ascending", "descending"])
@pytest.mark.parametrize("where", [None, "v <> ''"])
def test_random_histories_of_a_key_table(
    monkeypatch: pytest.MonkeyPatch, mode: str, sequence: str | None, where: str | None
) -> None:
    """Joins by the key and by another column, through merges of runs, deletes, compactions and overwrites."""
    monkeypatch.setattr(cache_state, "_SMALL", 10)
    monkeypatch.setattr(full_cache, "_CHANGES_AT_ONCE", 7)
    options = {} if sequence is None else {"sequence__field": "s", "sequence__field__sort_order": sequence}
    table = key_table(memory_catalog(), COLUMNS, **options)
    random_ = random.Random(f"{mode} {sequence} {where}")
    options = ALWAYS | {"lookup.cache": mode}
    with (
        table.new_lookup(["k"], where=where, options=options) as by_key,
        table.new_lookup(["g"], where=where, options=options) as by_other,
        table.new_lookup(["g", "k"], where=where, options=options) as by_both,
    ):
        for step in range(13):
            if step % 11 == 10:
                table.overwrite(pa.Table.from_pylist([{"k": 1, "g": 2, "v": "o", "s": 3}]))
            else:
                put(table, some_rows(random_, deletes=True))
            keys = [{"k": random_.randrange(70), "g": random_.choice([None, *range(9)])} for _ in range(50)]
            for lookup, on in ((by_key, ("k",)), (by_other, ("g",)), (by_both, ("g", "k"))):
                assert found(lookup, keys) == joined(table, keys, on, where), f"{on} after step {step}"
        assert by_other.kind == "full"


@pytest.mark.parametrize("where", [None, "v <> ''"])
def test_random_histories_of_an_append_table(where: str | None) -> None:
    table = append_table(memory_catalog(), COLUMNS)
    random_ = random.Random(str(where))
    with table.new_lookup(["g"], where=where, options=ALWAYS) as lookup:
        for _ in range(15):
            rows = some_rows(random_, deletes=False)
            put(table, [{name: value for name, value in row.items() if name != "_kind"} for row in rows])
            keys = [{"g": random_.choice([None, *range(9)])} for _ in range(20)]
            assert found(lookup, keys) == joined(table, keys, ("g",), where)


def test_deleted_rows_of_an_append_table_are_found_no_more() -> None:
    table = append_table(
        memory_catalog(), ("k INT", "v STRING"), deletion_vectors__enabled="true", bucket="1", bucket_key="k"
    )
    put(table, [{"k": k, "v": "a"} for k in range(10)])
    with table.new_lookup(["k"], options=ALWAYS) as lookup:
        assert len(lookup.lookup_key(3)) == 1
        table.delete("k = 3")
        assert lookup.lookup_key(3) == []
        assert len(lookup.lookup_key(4)) == 1


def small(options: dict[str, str] | None = None, **raw: str) -> tuple[Table, LookupTable]:
    table = key_table(memory_catalog(), ("k INT", "v STRING", "w INT"), **raw)
    put(table, [{"k": k, "v": f"v{k}", "w": k % 3} for k in range(10)])
    return table, table.new_lookup(["k"], options=options or FULL)


def test_a_join_of_batches_keeps_their_order_and_columns() -> None:
    _, lookup = small()
    left = pa.record_batch({"id": pa.array([5, 99, None, 5], pa.int64()), "x": ["a", "b", "c", "d"]})
    batches = list(lookup.join_batches([left, left.slice(0, 0)], {"id": "k"}))
    assert pa.Table.from_batches(batches, lookup.joined_schema(left.schema)).to_pylist() == [
        {"id": 5, "x": "a", "v": "v5", "w": 2},
        {"id": 99, "x": "b", "v": None, "w": None},
        {"id": None, "x": "c", "v": None, "w": None},
        {"id": 5, "x": "d", "v": "v5", "w": 2},
    ]
    inner = list(lookup.join_batches([left], {"id": "k"}, "inner"))
    assert inner[0].column("x").to_pylist() == ["a", "d"]


@pytest.mark.parametrize(
    ("left", "on", "how", "problem"),
    [
        ({"k": [1], "v": ["x"]}, None, "left", "'v' is in the batches and in table"),
        ({"k": [1]}, None, "outer", "how='outer'"),
        ({"id": [1]}, None, "left", "'k', which is looked up, is not in the batches"),
        ({"id": [1]}, {"id": "w"}, "left", "the lookup of table d.k is by k"),
        ({"k": ["one"]}, None, "left", "string as INT"),
    ],
)
def test_a_join_that_cannot_be_meant_is_refused(
    left: dict[str, list[Any]], on: dict[str, str] | None, how: str, problem: str
) -> None:
    _, lookup = small()
    with pytest.raises(InvalidInputError, match=problem):
        list(lookup.join_batches([pa.record_batch(left)], on, how))


def test_keys_that_cannot_be_meant_are_refused() -> None:
    table, lookup = small()
    with pytest.raises(InvalidInputError, match="keys need the columns k, but k is missing"):
        lookup.lookup(pa.table({"x": [1]}))
    with pytest.raises(InvalidInputError, match=r"a key has 1 values \(k\), but 2 were given"):
        lookup.lookup_key(1, 2)
    with pytest.raises(InvalidInputError, match="one"):
        lookup.lookup_key("one")
    with pytest.raises(InvalidInputError, match="name at least one column"):
        table.new_lookup([])
    with pytest.raises(InvalidInputError, match="column 'x' is not in the table"):
        table.new_lookup(["x"])
    with pytest.raises(InvalidOptionError, match="a limit would leave some out"):
        table.new_lookup(["k"], options={"limit": "5"})
    lookup.close()
    lookup.close()
    with pytest.raises(InvalidInputError, match="is closed; create a new one"):
        lookup.lookup_key(1)


@pytest.mark.parametrize(
    "raw",
    [
        {"merge_engine": "partial-update"},
        {"merge_engine": "aggregation", "changelog_producer": "input"},
        {"merge_engine": "first-row"},
        {"record_level__expire_time": "1 d", "record_level__time_field": "w"},
    ],
)
def test_a_table_whose_changes_are_not_its_rows_is_refused(raw: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=r"set changelog-producer|says that a row expired"):
        small(**raw)


def test_a_merging_engine_with_deletion_vectors_is_looked_up_by_its_key() -> None:
    raw = {"merge_engine": "partial-update", "deletion_vectors__enabled": "true"}
    removes = {"partial_update__remove_record_on_delete": "true"}
    table = key_table(memory_catalog(), ("k INT", "v STRING"), **raw, **removes)
    with pytest.raises(UnsupportedError, match=r"by the whole primary key with lookup.cache=auto"):
        table.new_lookup(["v"])
    with table.new_lookup(["k"]) as lookup:
        assert lookup.kind == "partial"


@pytest.mark.parametrize(
    "raw",
    [
        {"merge_engine": "partial-update", "changelog_producer": "full-compaction"},
        {
            "merge_engine": "aggregation",
            "fields__s__aggregate_function": "sum",
            "changelog_producer": "full-compaction",
        },
        {"sequence__field": "s"},
        {"sequence__snapshot_ordering": "true"},
    ],
)
def test_auto_takes_a_full_cache_where_rows_of_several_files_are_merged(raw: dict[str, str]) -> None:
    """A local query refuses these tables, as in Paimon; a lookup by the primary key does not."""
    catalog = memory_catalog()
    table = key_table(catalog, COLUMNS, **raw)
    keys = [{"k": k} for k in range(6)]
    with pytest.raises(UnsupportedError, match="its rows cannot be looked up"):
        table.new_query()
    with table.new_lookup(["k"]) as lookup:
        assert lookup.kind == "full"
        for number in range(3):
            put(
                table,
                [
                    {"k": k, "g": k, "v": None if number else f"v{k}", "s": 5 - number}
                    for k in range(number, 5)
                ],
            )
            compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
            lookup.refresh()
            assert found(lookup, keys) == joined(table, keys, ("k",))
            assert sum(found(lookup, keys).values()) == 5


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_an_overwrite_of_a_partition_reads_that_partition_only(
    producer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = memory_catalog()
    table = key_table(
        lake, ("p STRING", "k INT", "v STRING"), ("p", "k"), ("p",), changelog_producer=producer
    )
    put(table, [{"p": p, "k": k, "v": "old"} for p in "ab" for k in range(3)])
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), lake)
    with table.new_lookup(["p", "k"], options={"lookup.cache": "full"}) as lookup:
        monkeypatch.setattr(FullCache, "load", lambda _: pytest.fail("the table is loaded again"))
        table.overwrite(pa.Table.from_pylist([{"p": "a", "k": 1, "v": "new"}]), partitions=[{"p": "a"}])
        lookup.refresh()
        assert lookup.lookup_key("a", 0) == []
        assert lookup.lookup_key("b", 0) == [{"p": "b", "k": 0, "v": "old"}]
        assert lookup.lookup_key("a", 1) == [{"p": "a", "k": 1, "v": "new"}]


def test_an_expired_position_is_opened_again() -> None:
    table, lookup = small({**FULL, "continuous.discovery-interval": "1 h"})
    assert lookup.snapshot_id == 1
    for number in range(4):
        put(
            table,
            [
                {"k": 100 + number, "v": "new", "w": 0, "_kind": "+I"},
                {"k": 1, "v": None, "w": None, "_kind": "-D"},
            ],
        )
    snapshots = table._stores.snapshots
    for gone in (1, 2, 3):
        table._stores.file_io.delete(f"{table.path}/snapshot/snapshot-{gone}")
    table._stores.file_io.delete(f"{table.path}/snapshot/EARLIEST")
    assert snapshots.earliest() is not None
    assert lookup.refresh() == 5
    assert lookup.lookup_key(1) == []
    assert lookup.lookup_key(103) == [{"k": 103, "v": "new", "w": 0}]


def test_a_table_without_a_snapshot_is_followed_once_it_has_one() -> None:
    table = key_table(memory_catalog())
    with table.new_lookup(["k"], options=FULL) as lookup:
        assert (lookup.snapshot_id, lookup.lookup_key(1)) == (None, [])
        put(table, [{"k": 1, "v": "a"}])
        assert lookup.lookup_key(1) == [{"k": 1, "v": "a"}]


def test_a_damaged_block_is_made_again(tmp_path: Path) -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": f"v{k}"} for k in range(100)])
    with table.new_lookup(["k"], directory=str(tmp_path), options={"lookup.cache": "full"}) as lookup:
        cache = lookup._cache
        assert isinstance(cache, FullCache)
        for part in ("rows", "join"):
            run = cache._partitions.state.runs[0].run
            damage(getattr(run, part)._store)
            run.close()  # forgets what it has in memory
            assert lookup.lookup_key(7) == [{"k": 7, "v": "v7"}]
            assert cache._partitions.state.runs[0].run is not run


@pytest.mark.parametrize("blocks", range(4))
def test_a_full_local_disk_is_an_error_and_the_rows_so_far_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: int
) -> None:
    """The disk is full at block 0, 1, …: of the load, and later of a merge of runs."""
    from lakecore.lookup.tables.blocks import BlockStore  # the class is patched

    monkeypatch.setattr(cache_state, "_SMALL", 2)
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": f"v{k}"} for k in range(100)])
    lookup = table.new_lookup(["k"], directory=str(tmp_path), options=FULL)
    put(table, [{"k": k, "v": "new"} for k in range(50)])
    left = [blocks]
    append = BlockStore.append

    def full(store: BlockStore, block: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise UnavailableError("no space left on device")
        return append(store, block)

    monkeypatch.setattr(BlockStore, "append", full)
    with pytest.raises(UnavailableError):
        lookup.lookup_key(3)
    monkeypatch.undo()
    assert lookup.snapshot_id == 1
    assert lookup.lookup_key(3) == [{"k": 3, "v": "new"}]
    assert lookup.snapshot_id == 2


def test_dynamic_partitions_move() -> None:
    columns, keys = ("dt STRING", "k INT", "v STRING"), ("dt", "k")
    table = key_table(memory_catalog(), columns, keys, ("dt",))
    put(table, [{"dt": dt, "k": 1, "v": f"v{dt}"} for dt in ("2026-01-01", "2026-01-02")])
    options = FULL | {
        "lookup.dynamic-partition": "max_pt()",
        "lookup.dynamic-partition.refresh-interval": "1 min",
    }
    clock: Any = table._stores.clock
    with table.new_lookup(["k"], options=options) as lookup:
        assert lookup.lookup_key(1) == [{"dt": "2026-01-02", "k": 1, "v": "v2026-01-02"}]
        put(table, [{"dt": "2026-01-03", "k": 1, "v": "new"}, {"dt": "2026-01-02", "k": 1, "v": "changed"}])
        assert lookup.lookup_key(1) == [{"dt": "2026-01-02", "k": 1, "v": "changed"}]
        clock.sleep(61)
        assert lookup.lookup_key(1) == [{"dt": "2026-01-03", "k": 1, "v": "new"}]
        assert lookup.partitions == (("2026-01-03",),)
    with table.new_lookup(["k"], options=FULL | {"scan.partitions": "max_two_pt()"}) as lookup:
        assert sorted(row["v"] for row in lookup.lookup_key(1)) == ["changed", "new"]
    with table.new_lookup(["k"], options=FULL | {"scan.partitions": "dt=2026-01-01;dt=2026-01-03"}) as lookup:
        assert sorted(row["v"] for row in lookup.lookup_key(1)) == ["new", "v2026-01-01"]
    with pytest.raises(InvalidInputError, match="partition column dt cannot be looked up"):
        table.new_lookup(["k", "dt"], options={"scan.partitions": "max_pt()"})


def test_tasks_that_hold_their_buckets_have_all_rows_together() -> None:
    table = key_table(memory_catalog(), bucket="4")
    put(table, [{"k": k, "v": f"v{k}"} for k in range(100)])
    keys = pa.table({"k": range(100)})
    shares = [table.new_lookup(["k"], buckets=[b], options=FULL) for b in range(4)]
    put(table, [{"k": k, "v": "new"} for k in range(50)])
    parts = [set(one.lookup(keys).column("k").to_pylist()) for one in shares]
    assert sum(map(len, parts)) == 100
    assert set.union(*parts) == set(range(100))
    assert all(parts)
    with pytest.raises(InvalidInputError, match="has no fixed buckets"):
        append_table(memory_catalog("other")).new_lookup(["v"], buckets=[0])


def test_another_number_of_buckets_ends_a_lookup_of_some_buckets() -> None:
    catalog = memory_catalog()
    table = key_table(catalog, bucket="2")
    put(table, [{"k": 1, "v": "a"}])
    with table.new_lookup(["k"], buckets=[0], options=FULL) as lookup:
        catalog.alter_table(table.name, [{"op": "set", "key": "bucket", "value": "4"}])
        catalog.load_table(table.name).overwrite(pa.table({"k": pa.array([2], pa.int32()), "v": ["b"]}))
        with pytest.raises(UnsupportedError, match="had 2 buckets and has 4 now"):
            lookup.lookup_key(1)


def test_lookups_in_threads_see_whole_snapshots() -> None:
    """Each commit gives all keys one value: a lookup that saw two values would have seen half a commit."""
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": "0"} for k in range(200)])
    lookup = table.new_lookup(["k"], options=FULL | {"lookup.refresh.async": "true"})
    keys, stop, wrong = pa.table({"k": range(200)}), threading.Event(), list[str]()

    def look() -> None:
        while not stop.is_set():
            values = lookup.lookup(keys).column("v").to_pylist()
            if len(values) != 200 or len(set(values)) != 1:
                wrong.append(f"{len(values)} rows, values {set(values)}")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 15):
        put(table, [{"k": k, "v": str(number)} for k in range(200)])
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert lookup.refresh() == 15
    lookup.close()


def test_close_leaves_no_file_open(tmp_path: Path) -> None:
    def open_files() -> int:
        gc.collect()
        return sum(
            "deleted" in str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
        )

    before = open_files()
    table = key_table(memory_catalog())
    put(table, [{"k": k, "v": "a"} for k in range(100)])
    lookup = table.new_lookup(["k"], directory=str(tmp_path), options=FULL)
    assert lookup.lookup_key(1)
    assert open_files() > before
    lookup.close()
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []
