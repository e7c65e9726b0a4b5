"""Writers that place keys compete: a key is never in two buckets or partitions, and no row is lost."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import (
    CommitConflictError,
    CorruptDataError,
    InvalidInputError,
    LakeError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.local import LocalFileIO
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.table import Table
from lakecore.write.buckets.cross_partition import KeyLimits
from lakecore.write.buckets.placement import WriteTarget
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import memory_catalog, paths_of, put, rows_of

DYNAMIC = {
    "columns": ["p STRING", "k INT", "v STRING"],
    "partitionKeys": ["p"],
    "primaryKeys": ["p", "k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
}


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("placing")


def row(partition: str | None, key: int, value: str = "x") -> dict[str, Any]:
    return {"p": partition, "k": key, "v": value}


def interrupted(table: Table, rows: list[dict[str, Any]], meanwhile: Any) -> Iterator[pa.RecordBatch]:
    """Batches of a stream, with something happening after the first."""
    for number, one in enumerate(rows):
        yield pa.RecordBatch.from_pylist([one])
        if number == 0:
            meanwhile(table)


@pytest.mark.parametrize(
    ("meanwhile", "conflicts"),
    [
        (lambda table: put(table, [row("a", 100)]), True),
        (lambda table: put(table, [row("b", 100)]), False),
        (lambda table: put(table, [row("a", 1)]), False),
        (lambda table: table.overwrite(pa.Table.from_pylist([row("a", 7)])), True),
        (lambda table: table.overwrite(pa.Table.from_pylist([])), False),
        (lambda table: table.overwrite(pa.Table.from_pylist([]), "p=a"), True),
    ],
    ids=["new-key", "other-partition", "known-key", "overwrite", "overwrite-nothing", "emptied"],
)
def test_keys_placed_meanwhile_are_a_conflict(
    catalog: FilesystemCatalog, meanwhile: Any, conflicts: bool
) -> None:
    table = catalog.create_table("d.t", DYNAMIC)
    put(table, [row("a", 1), row("b", 1)])
    stream = interrupted(table, [row("a", 1, "new"), row("a", 50)], meanwhile)
    if not conflicts:
        table.write(stream)
        assert ("a", 1, "new") in rows_of(table)
        return
    with pytest.raises(CommitConflictError, match="assigned keys"):
        table.write(stream)
    named = {file.file_name for n in table._stores.snapshots.list_ids()
             for file in table._scanner.index_files(table._stores.snapshots.load(n))}  # fmt: skip
    assert {path.rsplit("/", 1)[1] for path in paths_of(table, "/index/")} == named


def test_a_run_cannot_give_the_buckets_another_kind(catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", DYNAMIC)
    for number in ("4", "-2"):
        with pytest.raises(InvalidInputError, match="bucket mode"):
            table.with_options({"bucket": number})
    assert table.with_options({"bucket": "-1"}).options.bucket == -1


def test_writers_at_once_place_every_key_once(catalog: FilesystemCatalog) -> None:
    name = catalog.create_table("d.t", DYNAMIC).name
    errors: list[LakeError] = []

    def write(number: int) -> None:
        for start in range(0, 30, 10):
            rows = [row("a", key, f"{number}") for key in range(start, start + 10)]
            try:
                catalog.load_table(name).write(pa.Table.from_pylist(rows))
            except CommitConflictError as err:
                errors.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = catalog.load_table(name)
    keys = [key for _, key, _ in rows_of(table)]
    assert len(keys) == len(set(keys))
    assert errors or len(keys) == 30
    hashes = [value for file in table._scanner.index_files(table._stores.snapshots.latest())
              for value in table._stores.indexes.read_hashes(file).tolist()]  # fmt: skip
    assert len(hashes) == len(set(hashes)) == len(keys)


ACROSS = {
    "columns": ["p STRING", "k INT", "v STRING"],
    "partitionKeys": ["p"],
    "primaryKeys": ["k"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"},
}


MOVING_ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "last_value"},
}


@pytest.mark.parametrize("spooled", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("engine", MOVING_ENGINES)
def test_a_key_is_in_one_partition_wherever_its_rows_come(
    catalog: FilesystemCatalog, engine: str, spooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a plain dict; batches of a few rows, so that keys move within one and between two.

    An overwrite of partitions is an upsert after they were emptied.
    """
    if spooled:
        few = partial(WriteTarget, key_limits=KeyLimits(keys=5, spool=100))
        monkeypatch.setattr("lakecore.write.session.WriteTarget", few)
    dice = random.Random(engine)
    table = catalog.create_table(
        "d.t", {**ACROSS, "options": {**ACROSS["options"], **MOVING_ENGINES[engine]}}
    )
    model: dict[int, tuple[str | None, int, str]] = {}
    for commit in range(9):
        verb = dice.choice(["write", "static", "dynamic"]) if commit else "write"
        static = dice.sample(["a", "b", "c"], 2)
        rows = []
        for i in range(dice.randrange(40)):
            kind = dice.choice(["+I", "+I", "+I", "-D"]) if engine == "deduplicate" else "+I"
            partition = dice.choice(static if verb == "static" else ["a", "b", "c", None])
            rows.append({**row(partition, dice.randrange(25), f"{commit}.{i}"), "_kind": kind})
        emptied = {"static": set(static), "dynamic": {one["p"] for one in rows}}.get(verb, set())
        model = {key: value for key, value in model.items() if value[0] not in emptied}
        for one in rows:
            if one["_kind"] == "-D" and one["k"] in model and verb == "write":
                one["p"] = model[one["k"]][0]
            first = model.pop(one["k"], (one["p"],))[0]
            if one["_kind"] == "+I":
                model[one["k"]] = (one["p"] if engine == "deduplicate" else first, one["k"], one["v"])
        batches = pa.Table.from_pylist(rows, schema=MOVING).to_batches(max_chunksize=dice.choice([1, 7, 100]))
        if verb == "write":
            table.write(iter(batches))
        else:
            spec = ";".join(f"p={one}" for one in static) if verb == "static" else None
            table.overwrite(iter(batches), spec)
        assert rows_of(table) == sorted(model.values(), key=repr), f"{commit} {verb}"
        if commit % 3 == 2:
            run(Job(table="d.t", strategy=Strategy.FULL), catalog)
            assert rows_of(table) == sorted(model.values(), key=repr)


def test_the_local_disk_fails_once_where_keys_wait_on_it(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At every fourth of its operations: the write fails and leaves nothing, here or there; others work."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = catalog.create_table("d.t", ACROSS)
    put(table, [row("a", k) for k in range(6)])
    before = paths_of(table)
    rows = pa.Table.from_pylist([row("b", k, "new") for k in range(4, 9)])
    for number in itertools.count(1, 4):
        local = FaultyFileIO(LocalFileIO(sync=False), number)
        few = partial(WriteTarget, key_limits=KeyLimits(keys=3, spool=90), spill_io=local)
        monkeypatch.setattr("lakecore.write.session.WriteTarget", few)
        if local_fails := _fails(table, rows):
            assert local.fired, number
            assert paths_of(table) == before, number
        before = paths_of(table)
        assert list(tmp_path.iterdir()) == [], number
        if not local_fails and not local.fired:
            break
    assert number > 5
    assert rows_of(table) == sorted(
        [("a", k, "x") for k in range(4)] + [("b", k, "new") for k in range(4, 9)]
    )


def _fails(table: Table, rows: pa.Table) -> bool:
    try:
        table.write(iter(rows.to_batches(max_chunksize=2)))
    except UnavailableError:
        return True
    return False


MOVING = pa.schema({"p": pa.string(), "k": pa.int32(), "v": pa.string(), "_kind": pa.string()})


def test_buckets_of_moving_keys_have_their_size(catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", ACROSS)
    put(
        table,
        [row("a", k) for k in range(7)],
        [row("b", k) for k in range(4)],
        [row("a", k) for k in range(20, 22)],
    )
    live = table._scanner.live_entries(table._stores.snapshots.latest())
    buckets = {(entry.partition, entry.bucket) for entry in live.rows()}
    assert len(buckets) == 5
    assert len(rows_of(table)) == 9


@pytest.mark.parametrize(
    ("meanwhile", "conflicts"),
    [
        (lambda table: put(table, [row("b", 100)]), True),
        (lambda table: run(Job(table="d.t", strategy=Strategy.FULL), memory_of(table)), False),
        (lambda table: table.overwrite(pa.Table.from_pylist([row("c", 7)]), dynamic=False), True),
    ],
    ids=["rows", "compaction", "overwrite"],
)
@pytest.mark.parametrize("verb", ["write", "overwrite"])
def test_rows_of_others_meanwhile_are_a_conflict_where_keys_move(
    catalog: FilesystemCatalog, meanwhile: Any, conflicts: bool, verb: str
) -> None:
    table = catalog.create_table("d.t", ACROSS)
    put(table, [row("a", 1), row("b", 2)], [row("b", 1)])
    stream = interrupted(table, [row("c", 1, "new"), row("a", 50)], meanwhile)
    act = table.write if verb == "write" else partial(table.overwrite, partitions="p=a;p=c")
    if conflicts:
        with pytest.raises(CommitConflictError, match="added rows"):
            act(stream)
        return
    act(stream)
    assert rows_of(table) == [("a", 50, "x"), ("b", 2, "x"), ("c", 1, "new")]


def memory_of(table: Table) -> FilesystemCatalog:
    return FilesystemCatalog(table._stores.file_io, table.path.rsplit("/", 2)[0], table._stores.clock)


def test_writers_at_once_of_moving_keys_leave_each_in_one_partition(catalog: FilesystemCatalog) -> None:
    catalog.create_table("d.t", ACROSS)
    threads = [threading.Thread(target=_move, args=(catalog, partition)) for partition in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [key for _, key, _ in rows_of(catalog.load_table("d.t"))]
    assert len(keys) == len(set(keys))


def _move(catalog: FilesystemCatalog, partition: str) -> None:
    for start in range(0, 12, 4):
        with suppress(CommitConflictError):
            catalog.load_table("d.t").write(
                pa.Table.from_pylist([row(partition, k) for k in range(start, start + 6)])
            )


def test_what_cannot_keep_keys_apart_is_refused(catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", ACROSS)
    put(table, [row("a", 1)])
    with pytest.raises(InvalidInputError, match="partition p=b, which is not among"):
        table.overwrite(pa.Table.from_pylist([row("a", 1), row("b", 2)]), "p=a")
    staying = table.with_options({"ignore-delete": "true"})
    put(staying, [row("a", 1, "y"), row("b", 2), {**row("b", 2), "_kind": "-D"}])
    files = paths_of(table)
    for rows in ([row("b", 1)], [row("a", 3), row("b", 3)]):
        with pytest.raises(UnsupportedError, match=r"ignore-delete=true: 1 rows .* from p=a to p=b"):
            put(staying, rows)
    assert paths_of(table) == files
    assert rows_of(table) == [("a", 1, "y"), ("b", 2, "x")]
    table.overwrite(pa.Table.from_pylist([]), "p=b")
    forgetful = table.with_options({"cross-partition-upsert.index-ttl": "1 ms"})
    table._stores.clock.sleep(10)
    put(forgetful, [row("b", 1)])
    assert len(rows_of(table)) == 2, "as the option says, old keys are forgotten"
    with pytest.raises(CorruptDataError, match="in two partitions or buckets"):
        put(table, [row("c", 5)])
