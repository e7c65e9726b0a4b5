"""Micro-batches that end inside a snapshot: every change once and in order, wherever a query stops."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError
from lakecore.read.source.batch_limits import UNLIMITED, BatchLimits, BatchWait
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.table import Table
from tests.lakecore.read.source.test_micro_batch import drained, flat, opened, rows_between, through_json
from tests.support.lake import append_table, key_table, memory_catalog, put

KEYS = 120


def large() -> Table:
    """Snapshot 2 has a changelog of many files in each of two buckets."""
    table = key_table(memory_catalog(), bucket="2", changelog_producer="input", target_file_size="1 b")
    put(table, [{"k": 0, "v": "first"}])
    many_files(table, [{"k": k, "v": f"{number}", "_kind": "+U"} for number in range(3) for k in range(KEYS)])
    return table


def many_files(table: Table, rows: list[dict[str, Any]]) -> None:
    """One commit, whose writer empties a small buffer into files again and again."""
    small = table.with_options({"write-buffer-size": "1 kb", "write-buffer-spillable": "false"})
    small.write(pa.Table.from_batches(pa.Table.from_pylist(rows).to_batches(max_chunksize=40)))


@pytest.mark.parametrize("again", [False, True], ids=["same-process", "after-a-crash"])
@pytest.mark.parametrize("limits", [BatchLimits(files=1), BatchLimits(rows=50), BatchLimits(size=900)])
def test_a_snapshot_is_cut(limits: BatchLimits, again: bool) -> None:
    table = large()
    start = StreamOffset.begin(2, None)
    whole = flat(drained(table, UNLIMITED, start)[0])
    found, end = drained(table, limits, start, again=again)
    assert len(found) > 4
    assert end is not None
    assert (end.next_snapshot, end.parts_read, end.parts_plan) == (3, 0, "")
    for key in range(KEYS):
        assert [row for row in flat(found) if row[1] == key] == [row for row in whole if row[1] == key]
    assert len(flat(found)) == len(whole) == 3 * KEYS
    assert len({row[1] for row in whole}) == KEYS


def test_a_query_goes_on_without_its_limits() -> None:
    table = large()
    begin = StreamOffset.begin(2, None)
    half = through_json(opened(table).latest(begin, BatchLimits(files=1)))
    assert half is not None
    assert (half.next_snapshot, half.parts_read, half.needed) == (2, 1, 2)
    assert half.to_json()["version"] == 2, "earlier releases would read these rows again"
    assert begin.to_json()["version"] == 1
    put(table, [{"k": 500, "v": "later"}])
    rest, end = drained(table, UNLIMITED, half)
    first = rows_between(opened(table), begin, half)
    assert len(first) + len(flat(rest)) == 3 * KEYS + 1
    assert end is not None
    assert end.next_snapshot == 4


def test_other_parts_are_an_error() -> None:
    table = large()
    half = opened(table).latest(StreamOffset.begin(2, None), BatchLimits(files=2))
    assert half is not None
    table._stores.file_io.delete(table._stores.paths.snapshot(2))
    table._stores.clock.sleep(1)
    put(table, [{"k": k, "v": "other"} for k in range(9)])
    with pytest.raises(
        InvalidInputError, match="a part of the changes of snapshot 2 was read, and its splits"
    ):
        opened(table).latest(half, UNLIMITED)
    with pytest.raises(InvalidInputError, match="a part of the changes of snapshot 2"):
        opened(table).work(StreamOffset.begin(2, None), half)


def test_a_half_read_snapshot_that_is_gone_is_an_error() -> None:
    table = large()
    half = opened(table).latest(StreamOffset.begin(2, None), BatchLimits(files=2))
    table._stores.file_io.delete(table._stores.paths.snapshot(2))
    with pytest.raises(InvalidInputError, match="a part of the changes of snapshot 2 was read"):
        opened(table).latest(half, UNLIMITED)


def appended(table: Table, count: int) -> None:
    table.append(pa.table({"v": pa.array(range(count), pa.int32()), "p": ["a"] * count}))


def test_few_rows_wait_for_more() -> None:
    table = append_table(memory_catalog())
    clock: Any = table._stores.clock
    limits = BatchLimits(wait=BatchWait(min_rows=10, max_delay_ms=60_000))
    batches = opened(table)
    appended(table, 1)
    start = batches.latest(None, limits)
    assert start is not None, "the first micro-batch waits for nothing"
    appended(table, 4)
    assert batches.latest(start, limits) == start
    appended(table, 6)
    end = batches.latest(start, limits)
    assert end is not None
    assert len(rows_between(batches, start, end)) == 10
    appended(table, 1)
    assert batches.latest(end, limits) == end
    clock.sleep(61)
    last = batches.latest(end, limits)
    assert last is not None
    assert len(rows_between(batches, end, last)) == 1
    appended(table, 1)
    ending = opened(table)
    ending.stop_at_latest()
    done = ending.latest(last, limits)
    assert done is not None
    assert done != last, "a query that ends with what is there waits for nothing"


def test_looks_have_an_interval() -> None:
    table = append_table(memory_catalog())
    clock: Any = table._stores.clock
    limits = BatchLimits(wait=BatchWait(discovery_ms=5_000))
    appended(table, 1)
    batches = opened(table)
    start = batches.latest(None, limits)
    assert batches.latest(start, limits) == start
    appended(table, 1)
    assert batches.latest(start, limits) == start, "the look before found nothing"
    clock.sleep(5)
    assert batches.latest(start, limits) != start
