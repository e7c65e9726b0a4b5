"""Writers in processes of their own, and one commit. Java reads such tables in tests/spark/test_sink.py."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CommitConflictError, InvalidInputError, UnsupportedError
from lakecore.jobs import compact
from lakecore.table import Table
from lakecore.write.batch_write import BatchWrite
from lakecore.write.messages import decode_commit, encode_commit
from lakecore.write.rows.incoming import BUCKET_COLUMN
from tests.support.lake import append_table, key_table, memory_catalog, paths_of


def prepare(write: BatchWrite, *shares: Sequence[dict[str, Any]]) -> list[bytes]:
    """What a writer of each share prepares."""
    found = []
    for rows in shares:
        writer = pickle.loads(pickle.dumps(write))
        for batch in pa.Table.from_pylist(list(rows)).to_batches():
            writer.write(batch)
        found.append(writer.prepare_commit())
    return found


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def data_files(table: Table) -> list[str]:
    return paths_of(table, "bucket-")


def test_many_writers_one_snapshot() -> None:
    table = append_table(memory_catalog())
    write = table.new_batch_write(commit=lakecore.Commit(user="me", identifier=3, watermark=9))
    result = write.commit(prepare(write, [{"v": 1, "p": "a"}], [{"v": 2, "p": "b"}], []))
    assert result.snapshot_ids == (1,)
    assert rows_of(table) == [(1, "a"), (2, "b")]
    snapshot = table.snapshot(1)
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.watermark) == ("me", 3, 9)
    again = table.new_batch_write(commit=lakecore.Commit(user="me", identifier=3))
    files = data_files(table)
    assert again.commit(prepare(again, [{"v": 1, "p": "a"}])).duplicate
    assert data_files(table) == files
    none = table.new_batch_write()
    assert none.commit([]).snapshot_ids == ()


def test_a_bucket_has_one_writer() -> None:
    table = key_table(memory_catalog(), bucket="2")
    write = table.new_batch_write()
    prepared = prepare(write, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    with pytest.raises(
        UnsupportedError, match=r"several writers had rows of one bucket.*lakecore\.spark\.write"
    ):
        write.commit(prepared)
    assert not data_files(table)
    assert table.latest_snapshot() is None
    apart = table.new_batch_write()
    by_bucket: dict[int, list[dict[str, Any]]] = {}
    for k in range(20):
        (one,) = decode_commit(prepare(apart, [{"k": k, "v": "x"}])[0]).messages
        by_bucket.setdefault(one.bucket, []).append({"k": k, "v": str(k)})
    assert len(by_bucket) == 2
    write = table.new_batch_write()
    write.commit(prepare(write, *by_bucket.values()))
    assert rows_of(table) == sorted((k, str(k)) for k in range(20))
    second = table.new_batch_write()
    second.commit(prepare(second, [{"k": 3, "v": "new", "_kind": "+U"}, {"k": 4, "v": None, "_kind": "-D"}]))
    assert dict(rows_of(table))[3] == "new"
    assert 4 not in dict(rows_of(table))


@pytest.mark.parametrize(
    ("options", "keys", "whose"),
    [
        ({"bucket": "-1"}, ("k", "p"), "one partition, whose keys"),
        ({"bucket": "-1"}, ("k",), "the table, whose keys"),
    ],
    ids=["dynamic", "moving"],
)
def test_assigned_buckets(options: dict[str, str], keys: tuple[str, ...], whose: str) -> None:
    table = key_table(memory_catalog(), ("k INT", "p INT", "v STRING"), keys, ("p",), **options)
    write = table.new_batch_write()
    with pytest.raises(UnsupportedError, match=whose):
        write.commit(prepare(write, [{"k": 1, "p": 1, "v": "a"}], [{"k": 2, "p": 1, "v": "b"}]))
    shares = [[{"k": k, "p": p, "v": f"{k}"} for k in range(3)] for p in (1, 2)]
    shares = shares if len(keys) == 2 else [[row for share in shares for row in share]]
    for _ in range(2):
        write = table.new_batch_write()
        write.commit(prepare(write, *shares))
    assert len(rows_of(table)) == (6 if len(keys) == 2 else 3)
    stale, other = table.new_batch_write(), table.new_batch_write()
    waiting = prepare(stale, [{"k": 50, "p": 1, "v": "late"}])
    other.commit(prepare(other, [{"k": 51, "p": 1, "v": "first"}]))
    with pytest.raises(CommitConflictError):
        stale.commit(waiting)
    assert 50 not in [row[0] for row in rows_of(table)]


def test_overwrites() -> None:
    table = append_table(memory_catalog(), ("v INT", "p STRING"), ("p",))
    table.append(pa.table({"v": [1, 2], "p": ["a", "b"]}))
    write = table.new_batch_write(overwrite=True)
    write.commit(prepare(write, [{"v": 3, "p": "b"}], [{"v": 4, "p": "b"}]))
    assert rows_of(table) == [(1, "a"), (3, "b"), (4, "b")]
    write = table.new_batch_write(overwrite=True, partitions="p=a")
    write.commit([])
    assert rows_of(table) == [(3, "b"), (4, "b")]
    write = table.new_batch_write(overwrite=True, dynamic=False)
    write.commit(prepare(write, [{"v": 5, "p": "c"}]))
    assert rows_of(table) == [(5, "c")]
    with pytest.raises(InvalidInputError, match="set overwrite"):
        table.new_batch_write(partitions="p=a")


def test_aborted_writes_leave_nothing() -> None:
    table = append_table(memory_catalog())
    table.append(pa.table({"v": [1], "p": ["a"]}))
    before = data_files(table)
    write = table.new_batch_write()
    prepared = prepare(write, [{"v": 2, "p": "b"}], [{"v": 3, "p": "b"}])
    write.write(pa.RecordBatch.from_pylist([{"v": 4, "p": "c"}]))
    assert len(data_files(table)) >= len(before) + 2
    with pytest.raises(InvalidInputError, match="copy it before"):
        pickle.dumps(write)
    write.abort(prepared)
    assert data_files(table) == before
    done = table.new_batch_write()
    kept = prepare(done, [{"v": 5, "p": "d"}])
    done.commit(kept)
    with pytest.raises(InvalidInputError, match="was committed, so its files are kept"):
        done.abort(kept)
    assert rows_of(table) == [(1, "a"), (5, "d")]


def test_what_is_not_of_this_commit() -> None:
    table = append_table(memory_catalog())
    write, other = table.new_batch_write(), table.new_batch_write()
    (one,) = prepare(write, [{"v": 1, "p": "a"}])
    with pytest.raises(InvalidInputError, match="is not part of commit"):
        other.commit([one])
    with pytest.raises(InvalidInputError, match="given twice"):
        write.commit([one, one])
    for wrong in (
        b"",
        b"[]",
        b"\x80\x04N.",
        one.replace(b'"bucket"', b'"bukcet"'),
        one.replace(b'"level":0', b'"level":"0"'),
    ):
        with pytest.raises(InvalidInputError, match="are no prepared commit"):
            write.commit([wrong])
    later = json.loads(one) | {"version": 6}
    with pytest.raises(UnsupportedError, match="version 6, and this release knows 5"):
        write.commit([json.dumps(later).encode()])


def test_damaged_bytes_are_not_committed() -> None:
    """Each byte of them, changed alone: what is still JSON of the same fields has another checksum."""
    table = append_table(memory_catalog())
    write = table.new_batch_write()
    (good,) = prepare(write, [{"v": 1, "p": "a"}])
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] = ord("1") if damaged[place] == ord("0") else ord("0")
        with pytest.raises((InvalidInputError, UnsupportedError)):
            write.commit([bytes(damaged)])
    with pytest.raises(InvalidInputError, match="are no prepared commit"):
        write.commit([good[:-9]])
    assert table.latest_snapshot() is None
    write.commit([good])
    assert rows_of(table) == [(1, "a")]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("file_name", "", "is not a file name: it is empty"),
        ("file_name", "../../../x", "it contains a path separator"),
        ("extra_files", ["a/b"], "it contains a path separator"),
        ("external_path", "x", "it is not absolute"),
        ("external_path", "/a/../b", "it contains . or .. as a part"),
        ("row_count", 1 << 63, "has more than 64 bits"),
        ("creation_time", -(1 << 63) - 1, "has more than 64 bits"),
        ("level", 1 << 31, "level=2147483648 has more than 32 bits"),
    ],
)
def test_what_no_manifest_can_hold_is_not_committed(name: str, value: Any, reason: str) -> None:
    """Bytes of an earlier version have no checksum, and whoever writes bytes may give them the right one."""
    table = append_table(memory_catalog())
    write = table.new_batch_write()
    (good,) = prepare(write, [{"v": 1, "p": "a"}])
    raw = json.loads(good)
    raw["prepared"]["messages"][0]["new_files"][0][name] = value
    text = json.dumps(raw["prepared"], separators=(",", ":"))
    raw["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    for version in (4, 5):
        with pytest.raises(InvalidInputError, match=reason):
            write.commit([json.dumps(raw | {"version": version}).encode()])
    assert table.latest_snapshot() is None


@pytest.mark.parametrize("version", [3, 4])
def test_bytes_of_earlier_versions_are_read(version: int) -> None:
    """A stream keeps what it is about to commit; a query may have been killed before lakecore was updated."""
    table = append_table(memory_catalog())
    write = table.new_batch_write()
    (data,) = prepare(write, [{"v": 1, "p": "a"}])
    raw = json.loads(data)
    del raw["sha256"]
    if version == 3:
        del raw["prepared"]["assigned"]
    write.commit([json.dumps(raw | {"version": version}).encode()])
    assert rows_of(table) == [(1, "a")]


def test_a_partition_has_many_writers_where_buckets_were_assigned() -> None:
    table = key_table(memory_catalog(), bucket="-1", **{"dynamic-bucket__target-row-num": "2"})
    table.write(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    write = table.new_batch_write()
    assigned = write.with_assigned_buckets()

    def share(bucket: int, *keys: int) -> list[dict[str, Any]]:
        return [{"k": key, "v": "new", BUCKET_COLUMN: bucket} for key in keys]

    shares = (share(0, 1, 2), share(1, 3), share(2, 4, 5))
    with pytest.raises(UnsupportedError, match="several writers had rows of one partition"):
        write.commit([*prepare(assigned, shares[0]), *prepare(write, [{"k": 9, "v": "c"}])])
    with pytest.raises(UnsupportedError, match="several writers had rows of one partition"):
        write.commit(prepare(assigned, share(1, 3), share(1, 4)))
    assert len(data_files(table)) == 1
    write.commit(prepare(assigned, *shares))
    assert rows_of(table) == [(k, "new") for k in range(1, 6)]
    latest = table.latest_snapshot()
    assert latest is not None
    files = table._scanner.index_files(latest)
    assert sorted((file.bucket, file.row_count) for file in files) == [(0, 2), (1, 1), (2, 2)]
    late = table.new_batch_write().with_assigned_buckets()
    prepared = prepare(late, share(1, 6))
    table.write(pa.table({"k": pa.array([7], pa.int32()), "v": ["c"]}))
    with pytest.raises(CommitConflictError):
        late.commit(prepared)


def test_another_commit_after_keys_were_assigned_may_have_the_same_key_elsewhere() -> None:
    """Keys of this table may move between partitions. A compaction moves none, so it is no conflict. The first write read an
    empty table, which is a state, too."""
    catalog = memory_catalog()
    table = key_table(catalog, ("k INT", "p INT"), ("k",), ("p",), bucket="-1")
    for key in (1, 2):
        late, early = (table.new_batch_write().with_assigned_buckets() for _ in range(2))
        prepared = prepare(late, [{"k": key, "p": 7, BUCKET_COLUMN: 0}])
        early.commit(prepare(early, [{"k": key, "p": 8, BUCKET_COLUMN: 0}]))
        with pytest.raises(CommitConflictError, match="added rows, perhaps with the same keys"):
            late.commit(prepared)
    again = table.new_batch_write().with_assigned_buckets()
    compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog, clock=catalog.clock)
    again.commit(prepare(again, [{"k": 3, "p": 7, BUCKET_COLUMN: 0}]))
    assert rows_of(table) == [(1, 8), (2, 8), (3, 7)]


def test_bytes_keep_everything() -> None:
    table = key_table(memory_catalog(), ("k INT", "v STRING"), bucket="-1", changelog_producer="input")
    write = table.new_batch_write()
    write.commit(prepare(write, [{"k": 1, "v": "a"}]))
    write = table.new_batch_write()
    (data,) = prepare(write, [{"k": n, "v": "a"} for n in range(9)])
    found = decode_commit(data)
    (message,) = found.messages
    assert message.new_files
    assert message.changelog_files
    assert message.new_index_files
    assert message.deleted_index_files
    assert found.hash_indexes is not None
    assert encode_commit(found) == data
