"""Streams of system tables, and what a stream says of its rows beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.read.source.batch_limits import UNLIMITED, BatchLimits
from lakecore.read.source.micro_batch import MicroBatches
from lakecore.read.source.stream import Stream
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.read.source.stream_view import StreamSelection, TableRows
from lakecore.scan.startup import Startup
from lakecore.scan.stream_policy import ChangelogMode
from lakecore.table import Table
from tests.lakecore.read.source.test_change_pieces import many_files
from tests.support.lake import append_table, key_table, memory_catalog, put

UPDATE = [{"k": 1, "v": "a", "_kind": "-U"}, {"k": 1, "v": "b", "_kind": "+U"}]


def everything(stream: Stream) -> list[list[tuple[Any, ...]]]:
    """The rows of each plan, without the kind, which is that of an insert."""
    found = []
    for changes in stream:
        rows = [row for batch in changes.to_batches() for row in batch.to_pylist()]
        assert {row.pop("_VALUE_KIND") for row in rows} == {0}
        found.append([tuple(row.values()) for row in rows])
    return found


def logged(**options: str) -> tuple[Any, Table]:
    catalog = memory_catalog()
    table = key_table(catalog, changelog_producer="input", **options)
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "x"}], UPDATE, [{"k": 2, "v": "x", "_kind": "-D"}])
    return catalog, table


def test_a_log_is_a_stream() -> None:
    catalog, _ = logged()
    log = catalog.load_table("d.k$audit_log")
    changes = [[("-U", 1, "a"), ("+U", 1, "b")], [("-D", 2, "x")]]
    assert everything(log.stream(snapshot=2)) == changes
    assert everything(log.stream(snapshot=2, where="rowkind = '+U' and k = 1", columns=["v"])) == [[("b",)]]
    binlog = catalog.load_table("d.k$binlog")
    assert everything(binlog.stream(snapshot=2)) == [
        [("+U", [1, 1], ["a", "b"])],
        [("-D", [2], ["x"])],
    ]


def test_positions_pass_through_a_log() -> None:
    """What the stream of the table stores, restores and acknowledges, the stream of its log does, too."""
    catalog, table = logged()
    log = catalog.load_table("d.k$audit_log")
    stream = log.stream(consumer="audit")
    assert stream.next_snapshot is None, "nothing is read yet"
    stream.acknowledge()
    assert table._stores.consumers.find("audit") is None
    whole = stream.poll()
    assert whole is not None
    assert (whole.full, stream.next_snapshot) == (True, 4)
    stream.acknowledge()
    assert table._stores.consumers.load("audit").next_snapshot == 4
    put(table, [{"k": 3, "v": "c"}])
    assert everything(log.stream(consumer="audit")) == [[("+I", 3, "c")]]
    assert everything(log.stream(next_snapshot=3)) == [[("-D", 2, "x")], [("+I", 3, "c")]]
    table._stores.file_io.delete(table._stores.paths.snapshot(1))
    with pytest.raises(NotFoundError, match=r"snapshot 1 .* has expired; snapshots 2 to 4 exist"):
        log.stream(next_snapshot=1).poll()


def test_the_whole_state_of_a_log_has_deletes_that_files_have() -> None:
    catalog, _ = logged()
    (rows,) = everything(catalog.load_table("d.k$audit_log").stream())
    assert sorted(rows) == [("+U", 1, "b"), ("-D", 2, "x")]


def test_sequence_numbers_are_shown() -> None:
    catalog, _ = logged(table_read__sequence_number__enabled="true")
    rows = everything(catalog.load_table("d.k$audit_log").stream(snapshot=3))
    assert rows == [[("-D", 4, 2, "x")]]


def test_a_pair_is_in_one_micro_batch() -> None:
    """Files of a bucket stay together where rows of two of them may be one change."""
    catalog, table = logged(target_file_size="1 b")
    log = catalog.load_table("d.k$binlog")
    many_files(table, [row for _ in range(60) for row in UPDATE])
    batches = MicroBatches(table, Startup.from_options({}), StreamSelection.of(log.stream_source()[1]))
    start = StreamOffset.begin(4, None)
    end = batches.latest(start, BatchLimits(files=1))
    assert end is not None
    assert end.next_snapshot == 5
    (work,) = batches.work(start, end)
    rows = [row for scan, part in work for batch in scan.read(part) for row in batch.to_pylist()]
    assert [row["rowkind"] for row in rows] == ["+U"] * 60
    other = MicroBatches(table, Startup.from_options({}), StreamSelection.of(TableRows.of_table(table)))
    assert other.latest(start, BatchLimits(files=1)).next_snapshot == 4  # type: ignore[union-attr]
    assert other.latest(start, UNLIMITED).next_snapshot == 5  # type: ignore[union-attr]


def test_what_has_no_stream() -> None:
    catalog, _ = logged()
    append_table(catalog)
    with pytest.raises(
        UnsupportedError, match=r"d.k\$files: it has no stream; audit_log, binlog, ro have one"
    ):
        catalog.load_table("d.k$files").stream()
    with pytest.raises(UnsupportedError, match=r"d.k\$ro: a table with a primary key has no stream of fully"):
        catalog.load_table("d.k$ro").stream()
    assert catalog.load_table("d.a$ro").stream().poll() is None
    with pytest.raises(InvalidInputError, match="column 'other' is not in the table"):
        catalog.load_table("d.k$audit_log").stream(columns=["other"])


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_parts_of_rows_are_no_rows(engine: str) -> None:
    """Rule of the format: these engines need a changelog to be streamed."""
    catalog = memory_catalog()
    table = key_table(catalog, merge_engine=engine)
    put(table, [{"k": 1, "v": "a"}])
    with pytest.raises(
        UnsupportedError, match=rf"merge-engine={engine}: .*changelog-producer.*d.k\$audit_log"
    ):
        table.stream()
    assert everything(catalog.load_table("d.k$audit_log").stream(snapshot=1)) == [[("+I", 1, "a")]]
    assert everything(table.stream(snapshot=1, as_written=True)) == [[(1, "a")]]


def test_readers_that_replace_rows_need_no_update_before() -> None:
    _, table = logged()
    stream = table.stream(snapshot=2, update_before=False)
    kinds = [
        kind
        for changes in stream
        for b in changes.to_batches()
        for kind in b.column("_VALUE_KIND").to_pylist()
    ]
    assert kinds == [2, 3]


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, ChangelogMode.UPSERT),
        ({"changelog_producer": "input"}, ChangelogMode.ALL),
        ({"changelog_producer": "lookup"}, ChangelogMode.ALL),
        ({"merge_engine": "first-row"}, ChangelogMode.INSERT_ONLY),
        ({"merge_engine": "first-row", "streaming_read_overwrite": "true"}, ChangelogMode.UPSERT),
    ],
    ids=str,
)
def test_kinds_are_known_beforehand(options: dict[str, str], mode: ChangelogMode) -> None:
    assert key_table(memory_catalog(), **options).changelog_mode is mode


def test_append_tables_have_inserts() -> None:
    assert append_table(memory_catalog()).changelog_mode is ChangelogMode.INSERT_ONLY
