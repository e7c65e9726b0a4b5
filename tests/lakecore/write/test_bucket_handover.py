"""Writers get the state of the buckets from the process that commits, and read no manifests."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import CommitConflictError, InvalidInputError
from lakecore.jobs import compact
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.table import Table
from lakecore.write.assigned import AssignedBy
from lakecore.write.batch_write import BatchWrite
from lakecore.write.stream_write import StreamWrite
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, live_files, memory_catalog, put, rows_of

MANY = [{"k": k, "p": k % 3, "v": "old"} for k in range(30)]
NEW = [{"k": k, "p": k % 3, "v": "new"} for k in range(0, 60, 2)]
COLUMNS = ("k INT", "p INT", "v STRING")


def table_of(**options: str) -> Table:
    keys = ("k",) if options.pop("moves", "") else ("k", "p")
    table = key_table(memory_catalog(), COLUMNS, keys, ("p",), **options)
    for _ in range(4):
        put(table, MANY)
    return table


def metadata_reads(
    write: BatchWrite | StreamWrite, rows: list[dict[str, Any]], *number: int
) -> tuple[bytes, list[str]]:
    """What a copy in another process prepares, and the manifests and snapshots that it reads."""
    copy: Any = pickle.loads(pickle.dumps(write))
    files = FaultyFileIO(copy._table._stores.file_io)
    copy._table = replace(copy._table, _stores=replace(copy._table._stores, file_io=files))
    copy.write(pa.RecordBatch.from_pylist(rows))
    prepared = copy.prepare_commit(*number)
    return prepared, [one for one in files.log if "/manifest/" in one and "write" not in one]


def known(table: Table) -> AssignedBy:
    return AssignedBy.latest(table._session(table._with_user(None)))


@pytest.mark.parametrize(
    "options",
    [{"bucket": "2"}, {"bucket": "-1"}, {"bucket": "-2", "postpone__default_bucket_num": "2"}, {"bucket": "-1", "moves": "1"}],
    ids=["fixed", "dynamic", "postponed", "moving keys"],
)  # fmt: skip
def test_a_writer_of_a_batch_reads_no_manifests(options: dict[str, str]) -> None:
    table = table_of(**options)
    highest = max(file.max_sequence_number for file in live_files(table))
    write = table.new_batch_write().with_buckets_at_start()
    prepared, reads = metadata_reads(write, NEW)
    if "moves" not in options:  # such a writer, without assigners, reads all keys
        assert reads == []
    write.commit([prepared])
    assert rows_of(table) == rows_of(reference(options))
    assert max(file.max_sequence_number for file in live_files(table)) > highest


def reference(options: dict[str, str]) -> Table:
    table = table_of(**options)
    put(table, NEW)
    return table


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_a_writer_of_a_stream_reads_no_manifests(bucket: str) -> None:
    table = table_of(bucket=bucket)
    write = table.new_stream_write("job")
    prepared, reads = metadata_reads(write.with_buckets_of(known(table)), NEW, 1)
    assert reads == []
    write.commit(1, [prepared])
    assert rows_of(table) == rows_of(reference({"bucket": bucket}))


def test_another_commit_between_the_plan_and_the_write_of_a_stream() -> None:
    """Its sequence numbers count: otherwise the older row of a key would win."""
    table = table_of(bucket="2")
    write, state = table.new_stream_write("job"), known(table)
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    compact.run(job, OneTableLake(table))
    prepared, reads = metadata_reads(write.with_buckets_of(state), NEW, 1)
    assert reads == []  # a compaction changes nothing that the writer needs
    write.commit(1, [prepared])
    state = known(table)
    for _ in range(3):
        put(table, [{"k": 0, "p": 0, "v": "between"}])
    prepared, reads = metadata_reads(write.with_buckets_of(state), [{"k": 0, "p": 0, "v": "last"}], 2)
    assert reads
    write.commit(2, [prepared])
    assert (0, 0, "last") in rows_of(table)


def test_the_conflicts_of_a_batch_stay() -> None:
    table = table_of(bucket="-1")
    write = table.new_batch_write().with_buckets_at_start()
    prepared, _ = metadata_reads(write, [{"k": 100, "p": 0, "v": "mine"}])
    put(table, [{"k": 101, "p": 0, "v": "theirs"}])
    with pytest.raises(CommitConflictError, match="conflicts with snapshot"):
        write.commit([prepared])


def test_an_expired_start_costs_a_batch_nothing() -> None:
    table = table_of(bucket="2")
    write = table.new_batch_write().with_buckets_at_start()
    put(table, [{"k": 101, "p": 0, "v": "theirs"}])
    store = table._stores.snapshots
    for number in store.list_ids()[:-1]:
        table._stores.file_io.delete(store.paths.snapshot(number))
    prepared, reads = metadata_reads(write, NEW)
    assert reads == []
    write.commit([prepared])
    assert {(101, 0, "theirs"), (0, 0, "new")} <= set(rows_of(table))


def test_nothing_is_read_where_no_row_is_placed_by_it() -> None:
    table = table_of(bucket="2")
    assert table.new_batch_write(overwrite=True).with_buckets_at_start()._buckets is None
    postponed = table_of(bucket="-2", postpone__batch_write_fixed_bucket="false")
    assert postponed.new_batch_write().with_buckets_at_start()._buckets is None
    assert known(postponed).buckets is None


def test_a_writer_with_buckets_at_start_is_for_one_commit() -> None:
    table = table_of(bucket="2")
    write = table.new_stream_write("job").with_buckets_of(known(table))
    write.write(pa.RecordBatch.from_pylist(NEW))
    write.prepare_commit(1)
    with pytest.raises(InvalidInputError, match="has prepared commit 1; make another one for the next"):
        write.write(pa.RecordBatch.from_pylist(NEW))


def test_packed_parts_are_those_of_the_state() -> None:
    table = table_of(bucket="-1", dynamic_bucket__target_row_num="5")
    session = table._session(table._with_user(None))
    state = session.bucket_state()
    packed = known(table).buckets
    assert packed is not None
    copy = pickle.loads(pickle.dumps(packed))
    assert copy.snapshot == state.snapshot
    partitions = {partition for partition, _ in state.next_sequences}
    assert len(partitions) == 3
    for partition in partitions:
        assert sorted(copy.buckets(partition)) == sorted(state.buckets(partition))
        assert len(copy.buckets(partition)) > 1
        assert copy.hash_files_of(partition) == state.hash_files_of(partition) != {}
        assert copy.total(partition) == state.total(partition)
        numbers = [
            (copy.next_sequence(partition, one), state.next_sequence(partition, one)) for one in range(9)
        ]
        assert all(ours == theirs for ours, theirs in numbers)
    assert copy.buckets(b"other") == ()
    assert copy.total(b"other") is None
