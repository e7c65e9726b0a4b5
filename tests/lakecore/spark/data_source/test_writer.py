"""The writer of a save without Spark: what happens to files when a task, the commit or the driver fails."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from lakecore.commit.committer import Committer
from lakecore.errors import CommitUncertainError, InvalidInputError, InvalidOptionError
from lakecore.spark.data_source.sink_request import SinkRequest
from lakecore.spark.data_source.writer import BatchWriter
from lakecore.table import Table
from tests.support.lake import append_table, memory_catalog, paths_of


@pytest.fixture
def table() -> Table:
    return append_table(memory_catalog())


def batches(*values: int) -> Any:
    return iter([pa.RecordBatch.from_pylist([{"v": value, "p": "a"}]) for value in values])


def tasks(writer: BatchWriter, count: int = 2) -> list[Any]:
    copies = [pickle.loads(pickle.dumps(writer)) for _ in range(count)]
    return [pickle.loads(pickle.dumps(copy.write(batches(number)))) for number, copy in enumerate(copies)]


def test_tasks_and_a_commit(table: Table) -> None:
    writer = BatchWriter(table.new_batch_write())
    writer.commit(tasks(writer))
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [0, 1]


def test_a_save_that_lost_a_task_is_removed(table: Table) -> None:
    writer = BatchWriter(table.new_batch_write())
    found = tasks(writer)
    assert len(paths_of(table, "bucket-")) == 2
    writer.abort([*found, None])
    assert not paths_of(table, "bucket-")
    with pytest.raises(InvalidInputError):
        writer.write(iter([*batches(1), pa.RecordBatch.from_pylist([{"x": 1}])]))
    assert not paths_of(table, "bucket-")


def test_after_an_uncertain_commit_nothing_is_removed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = BatchWriter(table.new_batch_write())
    found = tasks(writer)

    def uncertain(*_: Any) -> None:
        raise CommitUncertainError("the storage did not answer")

    monkeypatch.setattr(Committer, "commit", uncertain)
    with pytest.raises(CommitUncertainError):
        writer.commit(found)
    writer.abort(found)  # Spark calls it in another process, which does not know of the error
    assert len(paths_of(table, "bucket-")) == 2


def test_options_of_a_save() -> None:
    base = {"path": "d.t", "warehouse": "/w"}
    found = SinkRequest.parse(
        {**base, "dynamic-partition-overwrite": "false", "partitions": "p=a", "branch": "b"}
    )
    assert found.table_options == {"dynamic-partition-overwrite": "false"}
    assert (found.partitions, found.branch, found.place.table) == ("p=a", "b", "d.t")
    with pytest.raises(InvalidOptionError, match=r"option scan\.snapshot-id: .* does not know it"):
        SinkRequest.parse({**base, "scan.snapshot-id": "1"})
