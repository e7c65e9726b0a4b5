"""The facade: append, upsert, overwrite, scan, on tables in memory."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.versions import branches, tags
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Commit, Table
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.handles import with_stores


@pytest.fixture
def catalog() -> FilesystemCatalog:
    MemoryFileIO("table").clear()
    return replace(load_catalog("memory://table/wh"), clock=FakeClock())


def append_table(catalog: FilesystemCatalog, **options: str) -> Table:
    return catalog.create_table(
        "d.a", {"columns": ["v INT", "p STRING"], "partitionKeys": ["p"], "options": options}
    )


def key_table(catalog: FilesystemCatalog, *columns: str, **options: str) -> Table:
    options = {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table(
        "d.k",
        {
            "columns": ["k INT", "v STRING", *columns],
            "primaryKeys": ["k"],
            "options": {"bucket": "2", **options},
        },
    )


def rows(table: Table, **scan: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=str)


def data(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def files(table: Table) -> set[str]:
    """Names of all data files in the table's folder, live or not."""
    found, folders = set(), [table.path]
    while folders:
        for status in table._stores.file_io.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            elif "/bucket-" in status.path:
                found.add(status.name)
    return found


def live(table: Table) -> list[Any]:
    latest = table._stores.snapshots.latest()
    assert latest is not None
    return list(table._scanner.live_entries(latest))


def test_an_empty_table_reads_empty(catalog: FilesystemCatalog) -> None:
    scan = append_table(catalog).scan(columns=["p"])

    assert scan.to_arrow().schema.names == ["p"]
    assert scan.to_arrow().num_rows == 0
    assert len(scan.plan()) == 0


def test_appended_rows_are_read(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    first = table.append(data([{"v": 1, "p": "a"}, {"v": 2, "p": None}]))
    table.append(pd.DataFrame({"p": ["a", "b"], "v": [3, None]}))

    assert first.snapshot_ids == (1,)
    assert [row["v"] for row in rows(table, where="p = 'a'")] == [1, 3]
    assert rows(table, snapshot=1, where="p is null") == [{"v": 2, "p": None}]
    assert table.scan(columns=["v"], limit=3).to_arrow().num_rows == 3
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert isinstance(table.scan().to_pandas(), pd.DataFrame)
    assert {entry.bucket for entry in live(table)} == {0}
    assert {entry.total_buckets for entry in live(table)} == {-1}


def test_no_rows_no_snapshot(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    result = table.append(pa.table({"v": pa.array([], pa.int32()), "p": pa.array([], pa.string())}))

    assert result.snapshot_ids == ()
    assert table._stores.snapshots.latest() is None


def test_fixed_buckets_continue_their_sequence(catalog: FilesystemCatalog) -> None:
    made = {"columns": ["v INT"], "options": {"bucket": "1", "bucket-key": "v"}}
    table = catalog.create_table("d.f", made)
    table.append(data([{"v": 1}, {"v": 2}]))
    table.append(data([{"v": 3}]))

    numbers = sorted((e.file.min_sequence_number, e.file.max_sequence_number) for e in live(table))
    assert numbers == [(0, 1), (2, 2)]


def test_upserted_rows_replace(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    table.upsert(data([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 1, "v": "c"}]))
    table.upsert(data([{"k": 2, "v": None, "_kind": "-D"}, {"k": 3, "v": "d", "_kind": "+I"}]))
    table.upsert(data([{"k": 3, "v": "e"}]))

    assert rows(table) == [{"k": 1, "v": "c"}, {"k": 3, "v": "e"}]
    assert rows(table, snapshot=1) == [{"k": 1, "v": "c"}, {"k": 2, "v": "b"}]
    by_bucket: dict[int, list[tuple[int, int]]] = {}
    for entry in live(table):
        bounds = (entry.file.min_sequence_number, entry.file.max_sequence_number)
        by_bucket.setdefault(entry.bucket, []).append(bounds)
    for numbers in by_bucket.values():
        assert all(
            low > high for (_, high), (low, _) in zip(sorted(numbers), sorted(numbers)[1:], strict=False)
        )


def test_sequence_fields_decide(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, "s INT", **{"sequence.field": "s"})
    table.upsert(
        data([{"k": 1, "v": "late", "s": 9}, {"k": 1, "v": "early", "s": 1}, {"k": 1, "v": "x", "s": None}])
    )
    table.upsert(data([{"k": 1, "v": "middle", "s": 5}]))

    assert rows(table, columns=["v"]) == [{"v": "late"}]


def test_input_changelog(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, changelog_producer="input")
    table.upsert(data([{"k": 1, "v": "a"}, {"k": 1, "v": "b"}]))

    snapshot = table._stores.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.changelog_record_count, snapshot.delta_record_count) == (2, 1)
    assert {name.split("-")[0] for name in files(table)} == {"data", "changelog"}
    before = files(table)
    table.overwrite(data([{"k": 1, "v": "c"}]))
    assert [name.split("-")[0] for name in files(table) - before] == ["data"]


def test_many_batches_stream(catalog: FilesystemCatalog) -> None:
    """The buffer holds a part of them; the rest is on local disk until the flush."""
    table = key_table(catalog, write_buffer_size="64 kb")

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(20):
            keys = pa.array(range(i % 4, 20_000, 7), pa.int32())
            yield pa.RecordBatch.from_pydict({"k": keys, "v": pa.array([f"{i}"] * len(keys))})

    result = table.upsert(batches())

    assert result.snapshot_ids == (1,)
    assert len(live(table)) == 2
    got = {row["k"]: row["v"] for row in rows(table)}
    assert got == {k: str(16 + i) for i in range(4) for k in range(i, 20_000, 7)}


def test_overwriting_partitions(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    table.append(data([{"v": 1, "p": "a"}, {"v": 2, "p": "b"}, {"v": 3, "p": None}]))

    table.overwrite(data([{"v": 9, "p": "a"}]))
    assert [row["v"] for row in rows(table)] == [2, 3, 9]
    table.overwrite(data([{"v": 8, "p": "b"}]), "p=b;p=a")
    assert [row["v"] for row in rows(table)] == [3, 8]
    table.overwrite(pa.table({"v": pa.array([], pa.int32()), "p": pa.array([], pa.string())}), {"p": None})
    assert [row["v"] for row in rows(table)] == [8]
    with pytest.raises(InvalidInputError, match="not to be overwritten"):
        table.overwrite(data([{"v": 1, "p": "c"}]), "p=b")
    assert len(files(table)) == 5
    table.overwrite(data([{"v": 7, "p": "c"}]), dynamic=False)
    assert [row["v"] for row in rows(table)] == [7]
    latest = table._stores.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.OVERWRITE


def test_static_by_option(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, **{"dynamic-partition-overwrite": "false"})
    table.append(data([{"v": 1, "p": "a"}, {"v": 2, "p": "b"}]))
    table.overwrite(data([{"v": 3, "p": "a"}]))

    assert [row["v"] for row in rows(table)] == [3]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [("q=1", "q"), ({"q": 1}, "'q' is not a partition column"), ({"p": 3}, "partition p=3")],
)
def test_partitions_that_are_not(catalog: FilesystemCatalog, partitions: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        append_table(catalog).overwrite(data([{"v": 1, "p": "a"}]), partitions)


def test_typed_partition_values(catalog: FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["v INT", "d DATE"], "partitionKeys": ["d"]})
    day = dt.date(2024, 1, 2)
    table.append(data([{"v": 1, "d": day}, {"v": 2, "d": None}]))
    table.overwrite(data([{"v": 3, "d": day}]), {"d": day})

    assert [row["v"] for row in rows(table)] == [2, 3]


def test_overwritten_keys_start_again_on_the_highest_level(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    table.upsert(data([{"k": k, "v": "a"} for k in range(9)]))
    table.overwrite(data([{"k": 1, "v": "b"}, {"k": 2, "v": "c"}]))

    assert {(e.file.level, e.file.min_sequence_number) for e in live(table)} == {(5, 0)}
    assert rows(table) == [{"k": 1, "v": "b"}, {"k": 2, "v": "c"}]
    plain = table.with_options({"overwrite-upgrade": "false"})
    plain.overwrite(data([{"k": 1, "v": "d"}]))
    assert {e.file.level for e in live(table)} == {0}


def test_a_partition_of_other_bucket_count(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    table.upsert(data([{"k": k, "v": "a"} for k in range(9)]))
    wider = table.with_options({"bucket": "4"})
    with pytest.raises(InvalidInputError, match="has 2 buckets, but option bucket is 4"):
        wider.upsert(data([{"k": 1, "v": "b"}]))
    wider.overwrite(data([{"k": k, "v": "b"} for k in range(9)]))

    assert {entry.total_buckets for entry in live(table)} == {4}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {
                "columns": ["k INT"],
                "options": {
                    "data-file.external-paths": "s3://b/x",
                    "data-file.external-paths.strategy": "round-robin",
                },
            },
            "external-paths",
        ),
    ],
)
def test_tables_that_this_release_does_not_write(
    catalog: FilesystemCatalog, raw: dict[str, Any], message: str
) -> None:
    table = catalog.create_table("d.t", raw)
    with pytest.raises(UnsupportedError, match=message):
        table.write(data([{"k": 1}]))
    assert files(table) == set()


def test_first_rows_take_no_retractions(catalog: FilesystemCatalog) -> None:
    options = {"bucket": "1", "merge-engine": "first-row"}
    table = catalog.create_table("d.t", {"columns": ["k INT"], "primaryKeys": ["k"], "options": options})
    rows = data([{"k": 1, "_kind": "+I"}, {"k": 2, "_kind": "-D"}])
    with pytest.raises(UnsupportedError, match="row 1 is -D: merge-engine=first-row"):
        table.write(rows)
    table.with_options({"ignore-delete": "true"}).write(rows)
    assert [entry.file.row_count for entry in live(table)] == [1]


def test_the_right_verb(catalog: FilesystemCatalog) -> None:
    with pytest.raises(InvalidInputError, match=r"d\.k has a primary key: use upsert"):
        key_table(catalog).append(data([{"k": 1}]))
    with pytest.raises(InvalidInputError, match=r"d\.a has no primary key: use append"):
        append_table(catalog).upsert(data([{"v": 1}]))


def test_a_failed_write_removes_its_files(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    table.append(data([{"v": 1, "p": "a"}]))
    before = files(table)
    with pytest.raises(InvalidInputError, match="row 1"):
        table.append([*data([{"v": 2, "p": "b"}]).to_batches(), data([{"v": 1, "p": "x", "_kind": "-D"}])])
    assert files(table) == before


def test_a_repeated_commit_writes_nothing_new(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    commit = Commit(user="job", identifier=3, watermark=5, properties={"a": "b"})
    first = table.upsert(data([{"k": 1, "v": "a"}]), commit)
    before = files(table)
    second = table.upsert(data([{"k": 1, "v": "a"}]), commit)

    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.snapshot_ids == second.snapshot_ids
    assert files(table) == before
    snapshot = table._stores.snapshots.load(1)
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.watermark) == ("job", 3, 5)
    assert snapshot.properties == {"a": "b"}


def test_users_have_the_prefix_of_the_table(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, **{"commit.user-prefix": "etl"})
    table.append(data([{"v": 1, "p": "a"}]))

    assert table._stores.snapshots.load(1).commit_user.startswith("etl_")


def test_an_uncertain_commit_deletes_nothing(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    storage = FaultyFileIO(table._stores.file_io)
    faulty = with_stores(table, file_io=storage)
    storage.mode = FaultMode.DEAD_AFTER_EFFECT
    operations = _operations_of_an_append(catalog)
    storage.fail_at = 1 + next(i for i, name in enumerate(operations) if name.startswith("publish"))
    with pytest.raises((CommitUncertainError, UnavailableError)):
        faulty.append(data([{"v": 1, "p": "a"}]))

    assert rows(table) == [{"v": 1, "p": "a"}]


def _operations_of_an_append(catalog: FilesystemCatalog) -> list[str]:
    twin = catalog.create_table("d.twin", {"columns": ["v INT", "p STRING"], "partitionKeys": ["p"]})
    storage = FaultyFileIO(twin._stores.file_io)
    with_stores(twin, file_io=storage).append(data([{"v": 1, "p": "a"}]))
    return storage.log


def test_a_refused_commit_removes_the_files(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = append_table(catalog)

    class Refusing:
        def commit(self, *_: object, **__: object) -> None:
            raise CommitConflictError("taken")

    monkeypatch.setattr(Table, "_committer", lambda _: Refusing())
    with pytest.raises(CommitConflictError):
        table.append(data([{"v": 1, "p": "a"}]))
    assert files(table) == set()


@pytest.mark.parametrize(
    ("scan", "error", "message"),
    [
        ({"snapshot": 7}, NotFoundError, "7"),
        ({"tag": "t"}, NotFoundError, "tag 't'"),
        ({"branch": "b"}, NotFoundError, "branch 'b'"),
        ({"timestamp_ms": 1}, NotFoundError, "at or before 1 ms"),
        ({"snapshot": 1, "tag": "t"}, InvalidInputError, "exclude each other"),
        ({"columns": ["z"]}, InvalidInputError, "'z' is not in the table; the table has the columns v, p"),
        ({"columns": []}, InvalidInputError, "name at least one"),
        ({"where": "z = 1"}, InvalidInputError, "z"),
        ({"limit": -1}, InvalidInputError, "limit -1"),
    ],
)
def test_scans_that_cannot_be(
    catalog: FilesystemCatalog, scan: dict[str, Any], error: type[Exception], message: str
) -> None:
    table = append_table(catalog)
    table.append(data([{"v": 1, "p": "a"}]))
    with pytest.raises(error, match=message):
        table.scan(**scan)


def test_reading_at_a_time(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    for value in (1, 2):
        table.append(data([{"v": value, "p": "a"}]))
        catalog.clock.sleep(60)

    start = table._stores.snapshots.load(1).time_millis
    assert [row["v"] for row in rows(table, timestamp_ms=start + 59_999)] == [1]
    assert [row["v"] for row in rows(table, timestamp_ms=start + 60_000)] == [1, 2]


def test_splits_travel_and_read_alone(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog)
    table.upsert(data([{"k": k, "v": "a"} for k in range(9)]))
    scan = table.scan(where="k > 4", columns=["k"])

    found = [row["k"] for split in scan.plan() for batch in scan.read(split) for row in batch.to_pylist()]
    assert sorted(found) == [5, 6, 7, 8]


def test_the_snapshots_tags_and_branches_of_a_table_are_listed(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    assert (table.latest_snapshot(), list(table.snapshots()), table.tags(), table.branches()) == (
        None,
        [],
        {},
        (),
    )
    for number in range(3):
        table.append(data([{"v": number, "p": "a"}]))
    first = table.snapshot(1)
    tags.run(tags.CreateTag(table=table.name, tag="one", snapshot=1), catalog)
    branches.run(branches.CreateBranch(table=table.name, branch="b", tag="one"), catalog)
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 2, 1]
    assert table.latest_snapshot() == table.snapshot(3)
    assert (table.tags(), table.branches()) == ({"one": first}, ("b",))
    assert [snapshot.id for snapshot in table.at_branch("b").snapshots()] == [1]
    with pytest.raises(NotFoundError, match="snapshot 9"):
        table.snapshot(9)


def test_what_disappears_during_a_listing_is_left_out(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog)
    for number in range(3):
        table.append(data([{"v": number, "p": "a"}]))
    tags.run(tags.CreateTag(table=table.name, tag="one", snapshot=1), catalog)
    tags.run(tags.CreateTag(table=table.name, tag="two", snapshot=2), catalog)
    stores = table._stores

    class Shrinking:
        """Storage in which the snapshot and the tag disappear once their directories were listed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(stores.file_io, name)

        def list(self, path: str) -> Any:
            found = stores.file_io.list(path)
            stores.file_io.delete(stores.paths.snapshot(2))
            stores.file_io.delete(stores.paths.tag("one"))
            return found

    shrinking = with_stores(table, file_io=Shrinking())
    assert [snapshot.id for snapshot in shrinking.snapshots()] == [3, 1]
    assert list(with_stores(table, file_io=Shrinking()).tags()) == ["two"]
