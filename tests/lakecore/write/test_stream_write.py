"""Streams of commits, each made once. Java reads them in tests/interop/test_stream_write_oracle.py."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import CommitConflictError, InvalidInputError, NotFoundError, UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.table import Table
from lakecore.write.stream_write import StreamWrite
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put, rows_of


def prepare(write: StreamWrite, number: int, *shares: Sequence[dict[str, Any]]) -> list[bytes]:
    """What a writer of each share prepares."""
    found = []
    for rows in shares:
        writer = pickle.loads(pickle.dumps(write))
        for batch in pa.Table.from_pylist(list(rows)).to_batches():
            writer.write(batch)
        found.append(writer.prepare_commit(number))
    return found


def a(v: int) -> list[dict[str, Any]]:
    return [{"v": v, "p": "a"}]


def expire(table: Table, keep: int) -> None:
    """Remove all snapshots but the newest, as expiry does once nothing needs them."""
    store = table._stores.snapshots
    ids = store.list_ids()
    for number in ids[:-keep]:
        table._stores.file_io.delete(store.paths.snapshot(number))


def test_commits_in_order() -> None:
    table = append_table(memory_catalog())
    write = table.new_stream_write("job")
    one = write.commit(0, prepare(write, 0, a(1), a(2)), watermark=7, properties={"x": "y"})
    assert one.snapshot_ids == (1,)
    snapshot = table.snapshot(1)
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.watermark) == ("job", 0, 7)
    assert snapshot.properties == {"x": "y"}
    assert write.commit(1, prepare(write, 1, a(3))).snapshot_ids == (2,)
    assert write.commit(2, [write.prepare_commit(2)]).snapshot_ids == ()
    kept = table.with_options({"snapshot.ignore-empty-commit": "false"}).new_stream_write("job")
    assert kept.commit(3, []).snapshot_ids == (3,)
    assert [row[0] for row in rows_of(table)] == [1, 2, 3]


def test_a_commit_tried_again_is_made_once() -> None:
    table = append_table(memory_catalog())
    write = table.new_stream_write("job")
    prepared = prepare(write, 4, a(1))
    write.commit(4, prepared)
    files = paths_of(table)
    again = table.new_stream_write("job")
    assert again.commit(4, prepared).duplicate  # the same bytes: their files are those of the table
    assert again.filter_and_commit({4: prepared})[4].duplicate
    assert paths_of(table) == files
    assert again.commit(4, prepare(again, 4, a(1))).duplicate  # the same rows, written again
    assert paths_of(table) == files
    assert rows_of(table) == [(1, "a")]
    with pytest.raises(InvalidInputError, match="commit 4 of job was committed, so its files are kept"):
        again.abort(prepared, 4)
    batch = table.new_batch_write(commit=lakecore.Commit(user="other", identifier=1))
    batch.write(pa.RecordBatch.from_pylist(a(2)))
    done = [batch.prepare_commit()]
    batch.commit(done)
    assert batch.commit(done).duplicate
    assert [row[0] for row in rows_of(table)] == [1, 2]


def test_a_restored_engine_commits_the_rest() -> None:
    table = append_table(memory_catalog())
    write = table.new_stream_write("job")
    waiting = {number: prepare(write, number, a(number)) for number in (1, 2, 3)}
    write.commit(1, waiting[1])
    for number in range(300):  # far more than a commit looks back for its own name
        table.append(pa.table({"v": pa.array([1000 + number], pa.int32()), "p": ["b"]}))
    results = table.new_stream_write("job").filter_and_commit(waiting)
    assert [(number, one.duplicate) for number, one in results.items()] == [(1, True), (2, False), (3, False)]
    assert {1, 2, 3} <= {row[0] for row in rows_of(table)}
    assert len(rows_of(table)) == 303
    table.new_stream_write("job").filter_and_commit(waiting)
    assert len(rows_of(table)) == 303


def test_a_batch_of_the_same_user_hides_nothing() -> None:
    table = append_table(memory_catalog())
    table.write(pa.Table.from_pylist(a(9)), lakecore.Commit(user="job", identifier=BATCH_IDENTIFIER))
    write = table.new_stream_write("job")
    write.commit(0, prepare(write, 0, a(1)))
    assert [row[0] for row in rows_of(table)] == [1, 9]


@pytest.mark.parametrize("tagged", [False, True], ids=["live", "tagged"])
def test_all_snapshots_of_the_user_expired(tagged: bool) -> None:
    table = key_table(memory_catalog(), ("v INT", "p STRING"), ("v",))
    write = table.new_stream_write("job")
    prepared = prepare(write, 1, a(1))
    write.commit(1, prepared)
    if tagged:
        table._stores.file_io.overwrite(
            table._stores.paths.tag("kept"), table._stores.file_io.read(table._stores.paths.snapshot(1))
        )
        table.overwrite(pa.Table.from_pylist(a(5)))
    put(table, a(6), a(7))
    before = rows_of(table)
    expire(table, 1)
    assert table.new_stream_write("job").filter_and_commit({1: prepared})[1].duplicate
    assert rows_of(table) == before
    with pytest.raises(InvalidInputError, match="was committed, so its files are kept"):
        table.new_stream_write("job").abort(prepared, 1)


def test_snapshots_expired_and_the_commit_was_never_made() -> None:
    table = append_table(memory_catalog())
    table.append(pa.Table.from_pylist(a(0)))
    write = table.new_stream_write("job")
    late, lost = prepare(write, 1, a(1)), prepare(write, 2, a(2))
    for number in range(3):
        table.append(pa.Table.from_pylist(a(10 + number)))
    expire(table, 1)
    restored = table.new_stream_write("job")
    assert restored.filter_and_commit({1: late})[1].snapshot_ids == (5,)
    assert 1 in [row[0] for row in rows_of(table)]
    gone = new_file(table, restored, 2, lost)
    table._stores.file_io.delete(gone)
    with pytest.raises(NotFoundError, match="of a commit that is repeated does not exist"):
        restored.filter_and_commit({2: lost})
    assert 2 not in [row[0] for row in rows_of(table)]


def new_file(table: Table, write: StreamWrite, number: int, prepared: list[bytes]) -> str:
    from lakecore.write.messages import decode_commit

    name = decode_commit(prepared[0]).messages[0].new_files[0].file_name
    (found,) = (path for path in paths_of(table) if path.endswith(name))
    return found


def sequences(files: Sequence[DataFile]) -> list[tuple[int, int]]:
    return sorted((file.min_sequence_number, file.max_sequence_number) for file in files)


def test_a_writer_goes_ahead_of_its_commits() -> None:
    """Later rows of a key win, although no snapshot had the earlier ones when they were numbered."""
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "old"}, {"k": 2, "v": "old"}])
    write = table.new_stream_write("job")
    waiting = {}
    for number in range(3):
        write.write(pa.RecordBatch.from_pylist([{"k": 1, "v": f"{number}"}]))
        waiting[number] = [write.prepare_commit(number)]
    for number, prepared in waiting.items():
        write.commit(number, prepared)
    assert rows_of(table) == [(1, "2"), (2, "old")]
    assert sequences(live_files(table)) == [(0, 1), (2, 2), (3, 3), (4, 4)]
    with pytest.raises(InvalidInputError, match="has prepared commit 2 already"):
        write.prepare_commit(2)


@pytest.mark.parametrize("keys", [("k", "p"), ("k",)], ids=["dynamic", "moving"])
def test_assigned_keys_wait_for_the_commit(keys: tuple[str, ...]) -> None:
    table = key_table(memory_catalog(), ("k INT", "p INT", "v STRING"), keys, ("p",), bucket="-1")
    write = table.new_stream_write("job")
    row = pa.RecordBatch.from_pylist([{"k": 1, "p": 1, "v": "a"}])
    write.write(row)
    first = [write.prepare_commit(0)]
    with pytest.raises(InvalidInputError, match="commit 0 of job, which assigned some, is not committed yet"):
        write.write(row)
    write.commit(0, first)
    write.write(pa.RecordBatch.from_pylist([{"k": 1, "p": 1, "v": "b"}, {"k": 2, "p": 1, "v": "b"}]))
    stale = [write.prepare_commit(1)]
    other = table.new_stream_write("other")
    other.commit(0, prepare(other, 0, [{"k": 3, "p": 1, "v": "c"}]))
    with pytest.raises(CommitConflictError):
        write.commit(1, stale)
    write.abort(stale, 1)
    assert rows_of(table) == [(1, 1, "a"), (3, 1, "c")]


def test_a_state_that_expired_or_was_rolled_back_is_a_conflict() -> None:
    table = key_table(memory_catalog(), ("k INT", "p INT"), ("k",), ("p",), bucket="-1")
    put(table, [{"k": 1, "p": 1}])
    write = table.new_stream_write("job")
    stale = prepare(write, 0, [{"k": 1, "p": 2}])
    put(table, [{"k": 5, "p": 1}])
    expire(table, 1)
    with pytest.raises(CommitConflictError):
        write.commit(0, stale)


def test_postponed_rows_wait_for_a_compaction() -> None:
    table = key_table(memory_catalog(), bucket="-2")
    write = table.new_stream_write("job")
    write.commit(0, prepare(write, 0, [{"k": 1, "v": "a"}]))
    assert rows_of(table) == []
    (path,) = paths_of(table, "bucket-postpone/")
    assert "-u-job-" in path


def test_what_is_refused() -> None:
    table = key_table(memory_catalog())
    with pytest.raises(InvalidInputError, match="a stream needs a commit user"):
        table.new_stream_write(" ")
    write = table.new_stream_write("job")
    for number in (-1, BATCH_IDENTIFIER):
        with pytest.raises(InvalidInputError, match=f"commit {number}: numbers of commits are"):
            write.prepare_commit(number)
    shares = [[{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}]]
    prepared = prepare(write, 0, *shares)
    with pytest.raises(UnsupportedError, match="several writers had rows of one bucket"):
        write.commit(0, prepared)
    assert table.latest_snapshot() is None
    with pytest.raises(InvalidInputError, match="is not part of commit 1 of job"):
        write.commit(1, prepared)
    write.write(pa.RecordBatch.from_pylist([{"k": 2, "v": "c"}]))
    with pytest.raises(InvalidInputError, match="copy it before"):
        pickle.dumps(write)
    with pytest.raises(InvalidInputError, match="k"):
        write.write(
            pa.RecordBatch.from_pylist(
                [{"k": None, "v": "c"}], schema=pa.schema([("k", pa.int32()), ("v", pa.string())])
            )
        )
    write.abort(prepared, 0)
    assert paths_of(table) == set()
