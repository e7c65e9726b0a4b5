"""Streams in micro-batches: whatever the limits, and wherever a query stops, every change comes once."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.jobs import compact
from lakecore.metadata.row_kind import RowKind
from lakecore.read.source.batch_limits import UNLIMITED, BatchLimits
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.scan.startup import Startup
from lakecore.table import Table
from tests.support.lake import append_table, key_table, memory_catalog, put, rows_of

ONE = BatchLimits(snapshots=1, splits=1)


def opened(table: Table, **more: Any) -> MicroBatches:
    rows = StreamSelection.of(TableRows.of_table(table))
    return MicroBatches(table, Startup.from_options(table.schema.options), rows, **more)


def through_json(offset: StreamOffset | None) -> StreamOffset | None:
    """As a checkpoint keeps it."""
    return None if offset is None else StreamOffset.from_json(json.loads(json.dumps(offset.to_json())))


def rows_between(batches: MicroBatches, start: StreamOffset | None, end: StreamOffset) -> list[Any]:
    """What the tasks read, after a pickle."""
    found = []
    for work in pickle.loads(pickle.dumps(batches.work(start, end))):
        for rows, part in work:
            for batch in rows.read(part, kinds=True):
                for row in batch.to_pylist():
                    kind = RowKind(row.pop("_VALUE_KIND")).symbol
                    found.append((kind, *row.values()))
    return found


def drained(
    table: Table, limits: BatchLimits, start: StreamOffset | None = None, *, again: bool = False
) -> tuple[list[list[Any]], StreamOffset | None]:
    """The rows of each batch until there is nothing new. `again`: each is planned by a new process."""
    batches, found = opened(table), []
    while True:
        end = batches.latest(start, limits)
        if end is None or end == start:
            return found, start
        planner = opened(table) if again else batches
        found.append(rows_between(planner, start, through_json(end)))  # type: ignore[arg-type]
        start = through_json(end)


def flat(found: list[list[Any]]) -> list[Any]:
    return [row for rows in found for row in rows]


def keyed() -> Table:
    table = key_table(memory_catalog(), bucket="2", changelog_producer="input")
    put(table, [{"k": k, "v": "a"} for k in range(6)])
    return table


@pytest.mark.parametrize("again", [False, True], ids=["same-process", "after-a-crash"])
@pytest.mark.parametrize("limits", [UNLIMITED, ONE, BatchLimits(rows=1), BatchLimits(files=3)])
def test_every_change_once(limits: BatchLimits, again: bool) -> None:
    table = keyed()
    found, end = drained(table, limits, again=again)
    assert sorted(flat(found)) == [("+I", k, "a") for k in range(6)]
    put(table, [{"k": 1, "v": "b", "_kind": "+U"}], [{"k": 1, "v": "c", "_kind": "+U"}])
    put(table, [{"k": 1, "v": "c", "_kind": "-D"}, {"k": 9, "v": "z"}])
    more, end = drained(table, limits, end, again=again)
    assert [row for row in flat(more) if row[1] == 1] == [("+U", 1, "b"), ("+U", 1, "c"), ("-D", 1, "c")]
    assert len(flat(more)) == 4
    assert drained(table, limits, end, again=again) == ([], end)
    if limits is ONE:
        assert len(found) == 2  # a split each
        assert len(more) == 4  # a file each: the last snapshot has two buckets


def test_rows_of_a_bucket_are_in_one_piece_of_work() -> None:
    table = keyed()
    _, start = drained(table, UNLIMITED)
    for number in range(4):
        put(table, [{"k": k, "v": f"{number}"} for k in range(6)])
    batches = opened(table)
    end = batches.latest(start, UNLIMITED)
    assert end is not None
    assert len(batches.work(start, end)) == 2
    seen: dict[int, list[str]] = {}
    for _, k, v in rows_between(opened(table), start, end):
        seen.setdefault(k, []).append(v)
    assert seen == {k: ["0", "1", "2", "3"] for k in range(6)}


def test_a_first_batch_that_was_not_committed_begins_where_it_began() -> None:
    """Only the end of the first batch is in a checkpoint; the table has newer rows when it is planned again."""
    table = append_table(memory_catalog())
    table.append(pa.table({"v": pa.array([1], pa.int32()), "p": ["a"]}))
    end = opened(table).latest(None, UNLIMITED)
    assert end is not None
    table.append(pa.table({"v": pa.array([2], pa.int32()), "p": ["a"]}))
    assert rows_between(opened(table), None, end) == [("+I", 1, "a")]
    assert flat(drained(table, UNLIMITED, end)[0]) == [("+I", 2, "a")]


@pytest.mark.parametrize("mode", ["latest", "from-snapshot", "from-snapshot-full", "latest-full"])
def test_starts(mode: str) -> None:
    table = append_table(memory_catalog())
    options = {"scan.mode": mode, **({"scan.snapshot-id": "2"} if "snapshot" in mode else {})}
    handle = table.with_options(options)
    before = opened(handle).latest(None, UNLIMITED)
    assert before is None or mode == "latest"
    for number in range(3):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["a"]}))
    if before is not None:
        assert [row[1] for row in flat(drained(handle, UNLIMITED, before)[0])] == [0, 1, 2]
    first, end = drained(handle, UNLIMITED)
    assert end is not None
    table.append(pa.table({"v": pa.array([3], pa.int32()), "p": ["a"]}))
    found = first + drained(handle, UNLIMITED, end)[0]
    numbers = {"latest": [3], "from-snapshot": [1, 2, 3]}.get(mode, [0, 1, 2, 3])
    assert [row[1] for row in flat(found)] == numbers


def test_what_is_there_now_and_no_more() -> None:
    table = keyed()
    batches = opened(table)
    batches.stop_at_latest()
    start = batches.latest(None, UNLIMITED)
    put(table, [{"k": 1, "v": "late"}])
    assert batches.latest(start, UNLIMITED) == start
    assert len(drained(table, UNLIMITED, start)[0]) == 1


def test_a_bound_ends_the_stream() -> None:
    table = append_table(memory_catalog()).with_options({"scan.bounded.watermark": "10"})
    from lakecore.table import Commit

    for number in (5, 10, 11, 12):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["a"]}), Commit(watermark=number))
    handle = table.with_options({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    found, end = drained(handle, UNLIMITED)
    assert [row[1] for row in flat(found)] == [5, 10]
    assert drained(handle, UNLIMITED, end) == ([], end)


def test_consumers_keep_what_is_needed() -> None:
    table = keyed()
    put(table, [{"k": 1, "v": "b"}])
    batches = opened(table, consumer="job")
    end = batches.latest(None, ONE)
    assert table._stores.consumers.load("job").next_snapshot == 2  # the state of snapshot 2 is read
    assert end is not None
    batches.acknowledge(end)
    assert table._stores.consumers.load("job").next_snapshot == 2
    last = batches.latest(end, ONE)
    assert last is not None
    batches.acknowledge(last)
    assert table._stores.consumers.load("job").next_snapshot == 3
    put(table, [{"k": 5, "v": "new"}])
    assert flat([rows_between(opened(table, consumer="job"), None, opened(table, consumer="job").latest(None, UNLIMITED))]) == [("+I", 5, "new")]  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("acknowledged", [False, True], ids=["nothing", "one of two splits"])
def test_a_consumer_whose_stream_was_lost_within_the_first_state_reads_all_of_it(acknowledged: bool) -> None:
    """A process may die before its engine knows the end of the first micro-batch."""
    table = keyed()
    put(table, [{"k": 1, "v": "b"}])
    batches = opened(table, consumer="job")
    end = batches.latest(None, ONE)
    assert end is not None
    assert end.full == 2, "one split is left"
    if acknowledged:
        batches.acknowledge(end)
    put(table, [{"k": 5, "v": "new"}])

    again = opened(table, consumer="job")
    state = again.latest(None, UNLIMITED)
    last = again.latest(state, UNLIMITED)
    assert state is not None
    assert last is not None
    found = [*flat([rows_between(again, None, state)]), *flat([rows_between(again, state, last)])]
    assert {key: value for _, key, value in found} == dict(rows_of(table))
    again.acknowledge(state)
    later = opened(table, consumer="job")
    end = later.latest(None, UNLIMITED)
    assert end is not None
    assert flat([rows_between(later, None, end)]) == [("+I", 5, "new")], "the state is not read again"
    table._stores.consumers.write("job", 9, reads_state=True)
    with pytest.raises(NotFoundError, match=r"snapshot 9 of .* does not exist"):
        opened(table, consumer="job")


def test_what_was_lost_is_an_error() -> None:
    table = append_table(memory_catalog())
    for number in range(4):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["a"]}))
    start = opened(table.with_options({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})).latest(
        None, ONE
    )
    assert start is not None
    state = opened(table).latest(None, BatchLimits(splits=1))
    file_io, paths = table._stores.file_io, table._stores.paths
    for number in (1, 2, 3):
        file_io.delete(paths.snapshot(number))
    with pytest.raises(NotFoundError, match=r"snapshot 2 .* has expired; snapshots 4 to 4 exist"):
        opened(table).latest(start, UNLIMITED)
    file_io.delete(paths.snapshot(4))
    with pytest.raises(NotFoundError):
        opened(table).work(None, state)  # type: ignore[arg-type]
    ahead = StreamOffset.begin(9, None)
    with pytest.raises(NotFoundError, match="the table was rolled back, dropped, or created again"):
        opened(table).latest(ahead, UNLIMITED)


def test_another_history_is_an_error() -> None:
    table = append_table(memory_catalog())
    for number in range(3):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["a"]}))
    _, end = drained(table, UNLIMITED)
    assert end is not None
    assert (end.seen_id, end.next_snapshot) == (3, 4)
    table._stores.file_io.delete(table._stores.paths.snapshot(3))
    table._stores.clock.sleep(1)  # a rollback, and other commits
    for number in (7, 8):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["b"]}))
    with pytest.raises(NotFoundError, match="snapshot 3 is not the one that the stream has read"):
        opened(table).latest(end, UNLIMITED)


def roll_back(table: Table, number: int, *later: int) -> None:
    """The table goes back to a snapshot; then as many commits come as the stream takes for what it knows."""
    snapshots = table._stores.snapshots
    for lost in range(number + 1, (snapshots.latest_id() or 0) + 1):
        table._stores.file_io.delete(table._stores.paths.snapshot(lost))
    table._stores.clock.sleep(1)
    for key in later:
        put(table, [{"k": key, "v": "later"}])


def test_another_history_after_a_compaction_is_an_error() -> None:
    """The compaction has no changes, so that the snapshot with the last rows is of both histories."""
    catalog = memory_catalog()
    table = key_table(catalog, changelog_producer="input")
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    _, start = drained(table, UNLIMITED)
    compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    _, end = drained(table, UNLIMITED, start)
    assert end is not None
    assert (end.seen_id, end.next_snapshot) == (2, 4)
    roll_back(table, 2, 7, 8)
    for start in (end, through_json(end)):
        with pytest.raises(NotFoundError, match="snapshot 3 is not the one that the stream has read"):
            opened(table).latest(start, UNLIMITED)


def test_another_history_before_the_first_changes_is_an_error() -> None:
    table = keyed()
    put(table, [{"k": 1, "v": "b"}])
    batches = opened(table.with_options({"scan.mode": "latest"}))
    assert batches.latest(None, UNLIMITED) is not None
    roll_back(table, 1, 7, 8)
    with pytest.raises(NotFoundError, match="snapshot 2 is not the one"):
        batches.latest(None, UNLIMITED)


def test_other_splits_or_columns_are_an_error() -> None:
    catalog = memory_catalog()
    table = append_table(catalog)
    for number in range(3):
        table.append(pa.table({"v": pa.array([number], pa.int32()), "p": ["a"]}))
    small = table.with_options({"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"})
    half = opened(small).latest(None, BatchLimits(splits=1))
    assert half is not None
    assert half.splits_read == 1
    with pytest.raises(InvalidInputError, match="its splits are others now"):
        opened(table).latest(half, UNLIMITED)
    end = opened(small).latest(half, UNLIMITED)
    assert end is not None
    with pytest.raises(InvalidInputError, match="its splits are others now"):
        opened(table).work(half, end)
    catalog.alter_table("d.a", [{"op": "add", "name": "w", "type": "INT"}])
    catalog.load_table("d.a").append(pa.table({"v": pa.array([9], pa.int32()), "p": ["a"], "w": [1]}))
    assert flat(drained(table, UNLIMITED, end)[0]) == [("+I", 9, "a")]
    catalog.alter_table("d.a", [{"op": "rename", "name": "p", "to": "q"}])
    catalog.load_table("d.a").append(pa.table({"v": pa.array([10], pa.int32()), "q": ["a"]}))
    with pytest.raises(InvalidInputError, match="column p STRING was changed to q STRING in schema 2"):
        drained(table, UNLIMITED, end)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"version": 9}, UnsupportedError, "has version 9, and this release knows 1 to 3"),
        ({"next_snapshot": "3"}, InvalidInputError, "wrong or missing fields"),
        ({"next_snapshot": None}, InvalidInputError, "wrong or missing fields"),
        ({"other": 3}, InvalidInputError, "wrong or missing fields"),
    ],
)
def test_damaged_offsets(change: dict[str, Any], error: type[Exception], message: str) -> None:
    raw = StreamOffset.begin(1, None).to_json() | change
    with pytest.raises(error, match=message):
        StreamOffset.from_json(raw)


@pytest.mark.parametrize("raw", [[], "x", None, 3])
def test_what_is_no_offset(raw: Any) -> None:
    """A checkpoint that was edited by hand, or is of another source, has JSON of any kind."""
    with pytest.raises(UnsupportedError, match="has version None, and this release knows 1 to 3"):
        StreamOffset.from_json(raw)
