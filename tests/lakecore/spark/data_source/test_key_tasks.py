"""The tasks that read the keys of a table whose keys may move between partitions, without a session of Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa

from lakecore.spark.data_source.places.cross_partition import CrossPartitionKeys
from lakecore.write.assigned import AssignedBy
from lakecore.write.buckets.key_places import hash_keys
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put


def test_a_task_reads_the_splits_that_the_driver_planned() -> None:
    """Together the tasks find each key once; none of them reads a snapshot or a manifest."""
    table = key_table(memory_catalog(), ("k INT", "p STRING"), ("k",), ("p",), bucket="-1")
    rows = [{"k": k, "p": "abc"[k % 3]} for k in range(30)]
    put(table, rows[:20], rows[20:], [{"k": 3, "p": "b"}])
    session = table._session(table._with_user(None))
    assigned_by = AssignedBy.latest(session)
    splits = assigned_by.key_splits(session)
    shares = [pickle.dumps(splits[number::2]) for number in range(2)]
    assert len(splits) == 3
    storage = FaultyFileIO(table._stores.file_io)
    on_executors = replace(table, _stores=replace(table._stores, file_io=storage))
    found = []
    for number in range(2):
        keys = CrossPartitionKeys(on_executors, assigned_by, "place")
        numbers = iter([pa.RecordBatch.from_pydict({"id": [number]})])
        for batch in keys._read_keys(1, shares, 0, numbers):
            found += [row["__lakecore_low"] for row in batch.to_pylist() if row["__lakecore_step"] == 1]
    key_type = table.schema.row_type.select(("k",))
    expected = hash_keys(pa.RecordBatch.from_pydict({"k": pa.array(range(30), pa.int32())}), key_type).low
    assert sorted(found) == sorted(expected.tolist())
    assert storage.log
    assert [line for line in storage.log if "/data-" not in line] == []


def test_the_keys_of_overwritten_partitions_are_not_planned() -> None:
    table = key_table(memory_catalog(), ("k INT", "p STRING"), ("k",), ("p",), bucket="-1")
    put(table, [{"k": 1, "p": "a"}])
    session = table._session(table._with_user(None))
    assert AssignedBy(table.latest_snapshot(), replaces=True).key_splits(session) == ()
