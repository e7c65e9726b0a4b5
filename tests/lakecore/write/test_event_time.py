"""The watermark of a commit is the latest event time of its rows, less a delay."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidOptionError
from lakecore.table import Commit, Table
from tests.support.lake import append_table, memory_catalog

START = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
START_MS = 1_767_225_600_000


def timed(**options: str) -> Table:
    return append_table(
        memory_catalog(), ("v INT", "ts TIMESTAMP(6)", "late TIMESTAMP(9)"), write_only="true", **options
    )


def rows(*seconds: float | None) -> pa.RecordBatch:
    times = [None if one is None else START + timedelta(seconds=one) for one in seconds]
    return pa.RecordBatch.from_pydict(
        {"v": pa.array(range(len(times)), pa.int32()), "ts": pa.array(times, pa.timestamp("us")),
         "late": pa.array(times, pa.timestamp("ns"))}
    )  # fmt: skip


def marks(table: Table) -> list[Any]:
    watermarks = [snapshot.watermark for snapshot in table.snapshots()]
    return [None if one is None else (one - START_MS) / 1000 for one in reversed(watermarks)]


def test_a_stream_of_commits() -> None:
    """Late rows and commits without times keep the mark; a writer without rows holds nothing back."""
    table = timed()
    write = table.new_stream_write("job", watermark="ts - 5 s")
    other, idle = (pickle.loads(pickle.dumps(write)) for _ in range(2))
    for number, (one, two) in enumerate((((10, 30), (20,)), ((7,), (8,)), ((None,), (None,)), ((60.5,), ()))):
        write.write(rows(*one))
        if two:
            other.write(rows(*two))
        write.commit(number, [writer.prepare_commit(number) for writer in (write, other, idle)])
    assert marks(table) == [25, 25, 25, 55.5]


def test_batches_and_an_own_watermark() -> None:
    table = timed(write__watermark="late")
    table.append(pa.Table.from_batches([rows(1), rows(3, 2)]))
    batch = table.new_batch_write()
    batch.write(rows(9.25))
    batch.commit([batch.prepare_commit()])
    table.append(pa.Table.from_batches([rows(20)]), Commit(watermark=START_MS + 50_000))
    assert marks(table) == [3, 9.25, 50], "a commit's own watermark counts"


def test_what_came_before_the_restart_counts() -> None:
    table = timed()
    first = table.new_stream_write("job", watermark="ts")
    first.write(rows(40))
    prepared = [first.prepare_commit(1)]
    table.new_stream_write("job", watermark="ts").filter_and_commit({1: prepared})
    assert marks(table) == [40]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v", "'v' is no TIMESTAMP column of the table; those are ts, late"),
        ("other - 5 s", "'other' is no TIMESTAMP column"),
        ("ts - soon", "the delay is not a duration"),
        ("", "'' is no TIMESTAMP column"),
    ],
)
def test_wrong_options_are_refused_before_rows(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        timed().new_stream_write("job", watermark=text)
    with pytest.raises(InvalidOptionError, match=message):
        timed().with_options({"write.watermark": text}).append(pa.Table.from_batches([rows(1)]))
