"""Streams step by step: where they start and end, what they wait for, and what they say when they cannot go on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, InvalidOptionError, NotFoundError
from lakecore.metadata.schema_change import SetOption
from lakecore.read.source.stream import Changes, Stream
from lakecore.table import Commit
from tests.support.fake_clock import FakeClock
from tests.support.lake import append_table, key_table, memory_catalog, put


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("stream")


def rows(changes: Changes | None) -> tuple[int, list[tuple[Any, ...]]] | None:
    """The snapshot, and rows with the kind last."""
    if changes is None:
        return None
    found = [tuple(row.values()) for batch in changes.to_batches() for row in batch.to_pylist()]
    return changes.snapshot.id, found


def everything(stream: Stream) -> list[tuple[int, list[tuple[Any, ...]]]]:
    return [found for changes in stream if (found := rows(changes)) is not None]


def test_the_whole_table_then_its_changes(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, ("k INT", "v STRING"))
    stream = table.stream()
    assert stream.poll() is None
    assert stream.next_snapshot is None
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    assert everything(stream) == [(2, [(1, "b", 0)])]
    put(table, [{"k": 1, "v": "b", "_kind": "-D"}, {"k": 2, "v": "c", "_kind": "+U"}])
    assert everything(stream) == [(3, [(1, "b", 3), (2, "c", 2)])]
    assert stream.next_snapshot == 4
    assert everything(table.stream(snapshot=3, columns=["v"], where="k > 1")) == [(3, [("c", 2)])]
    assert everything(table.stream(snapshot=stream.next_snapshot)) == []


def test_the_position_before_the_whole_table_was_polled_is_none(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, ("k INT", "v STRING"))
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    stopped = table.stream()
    assert stopped.next_snapshot is None
    whole = [(2, [(1, "a", 0), (2, "b", 0)])]
    assert everything(table.stream(next_snapshot=stopped.next_snapshot)) == whole, "nothing is skipped"
    assert everything(stopped) == whole
    assert stopped.next_snapshot == 3
    behind = table.stream(snapshot=2)
    assert behind.next_snapshot == 2, "a start with changes has a position at once"


def test_starts(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, ("v INT",))
    early = table.stream(mode="latest")
    put(table, [{"v": 1}])
    clock = table._stores.clock
    assert isinstance(clock, FakeClock)
    clock.sleep(60)
    put(table, [{"v": 2}])
    late = table.stream(mode="latest")
    put(table, [{"v": 3}])
    assert [number for number, _ in everything(early)] == [1, 2, 3], "the table was empty: nothing is missed"
    assert [number for number, _ in everything(late)] == [3]
    assert [number for number, _ in everything(table.stream(timestamp_ms=clock.now_ms()))] == [2, 3]
    assert [number for number, _ in everything(table.stream(timestamp_ms=0))] == [1, 2, 3]
    assert [number for number, _ in everything(table.stream(mode="from-snapshot-full", snapshot=2))] == [2, 3]
    for wrong in ({"scan.tag-name": "x"}, {"scan.watermark": "1"}, {"incremental-between": "1,2"}):
        with pytest.raises(InvalidOptionError, match="stream"):
            table.with_options(wrong).stream()


def test_bounds_and_delays(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, ("v INT",))
    for number in (1, 2, 3):
        table.write(pa.table({"v": pa.array([number], pa.int32())}), Commit(watermark=10 * number))
    bounded = table.with_options({"scan.bounded.watermark": "20"}).stream(snapshot=1)
    assert [number for number, _ in everything(bounded)] == [1, 2]
    assert bounded.ended
    assert bounded.next_snapshot == 3
    delayed = table.with_options({"streaming.read.snapshot.delay": "1 min"}).stream(snapshot=1)
    assert everything(delayed) == []
    table._stores.clock.sleep(61)
    assert len(everything(delayed)) == 3


def test_what_overwrites_replace(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, ("k INT", "v STRING"))
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    table.overwrite(pa.table({"k": pa.array([2], pa.int32()), "v": ["c"]}))
    assert everything(table.stream(snapshot=2)) == []
    whole = table.with_options({"streaming-read-overwrite": "true"}).stream(snapshot=2)
    assert everything(whole) == [(2, [(1, "a", 3), (2, "b", 3), (2, "c", 0)])]
    with pytest.raises(InvalidOptionError, match="changelog-producer=lookup already gives these changes"):
        table.with_options({"streaming-read-overwrite": "true", "changelog-producer": "lookup"}).stream()
    keyless = append_table(catalog)
    with pytest.raises(InvalidOptionError, match="has no primary key; use streaming-read-append-overwrite"):
        keyless.with_options({"streaming-read-overwrite": "true"}).stream()


def test_what_overwrites_add_to_a_table_with_data_evolution(catalog: FilesystemCatalog) -> None:
    evolves = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
    table = append_table(catalog, ("v INT", "w STRING"), **evolves)
    put(table, [{"v": 1, "w": "a"}])
    table.overwrite(pa.table({"v": pa.array([2], pa.int32()), "w": ["b"]}))
    assert everything(table.stream(snapshot=2)) == []
    added = table.with_options({"streaming-read-append-overwrite": "true"}).stream(snapshot=2)
    assert everything(added) == [(2, [(2, "b", 0)])]


@pytest.mark.parametrize("key", ["scan.watermark.alignment.group", "scan.watermark.idle-timeout"])
def test_options_of_streams_of_spark_are_refused(catalog: FilesystemCatalog, key: str) -> None:
    table = key_table(catalog, ("k INT", "v STRING"), changelog_producer="input")
    for one in (table, catalog.load_table("d.k$audit_log")):
        with pytest.raises(InvalidOptionError, match=f"option {key}='1 s': .* waits for no other stream"):
            one.with_options({key: "1 s"}).stream()
    catalog.alter_table("d.k", [SetOption(key, "1 s")])
    assert catalog.load_table("d.k").stream().poll() is None, "a stored option is for other engines, too"


def test_what_is_gone_or_was_never_there(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}], [{"v": 3}])
    waiting = table.stream(snapshot=1)
    for number in (1, 2):
        table._stores.file_io.delete(table._stores.paths.snapshot(number))
    table._stores.file_io.overwrite(table._stores.paths.earliest_hint, b"3")
    with pytest.raises(
        NotFoundError, match=r"snapshot 1 .*has expired; snapshots 3 to 3 exist: start a new stream"
    ):
        waiting.poll()
    assert [number for number, _ in everything(table.stream(snapshot=1))] == [3], "a new one starts later"
    with pytest.raises(NotFoundError, match="has expired"):
        table.stream(next_snapshot=2).poll()
    table._stores.consumers.write("late", 2)
    with pytest.raises(NotFoundError, match="has expired"):
        table.stream(consumer="late").poll()
    table._stores.consumers.write("old", 9)
    beyond = table.stream(consumer="old")
    with pytest.raises(
        NotFoundError, match=r"snapshot 9 .*after the latest.*rolled back, dropped, or created again"
    ):
        beyond.poll()


@pytest.mark.parametrize("polls", [0, 1, 3], ids=["opened", "first-state", "changes"])
def test_as_many_commits_after_a_rollback_as_were_lost(catalog: FilesystemCatalog, polls: int) -> None:
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}])
    stream = table.stream(mode="latest") if polls == 0 else table.stream()
    put(table, *([{"v": 2}], [{"v": 3}]) if polls else ())
    for _ in range(polls):
        assert stream.poll() is not None
    position = stream.next_snapshot
    for number in range(1, 4):
        if table._stores.snapshots.find(number) is not None:
            table._stores.file_io.delete(table._stores.paths.snapshot(number))
    table._stores.clock.sleep(1)
    put(table, [{"v": 7}], [{"v": 8}], [{"v": 9}], [{"v": 10}])
    with pytest.raises(NotFoundError, match=r"is not the one that .* created again; start a new stream"):
        stream.poll()
    assert position is not None
    assert table.stream(next_snapshot=position).poll() is not None, "a number tells nothing of the history"


def test_consumers_keep_positions(catalog: FilesystemCatalog) -> None:
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    stream = table.stream(snapshot=1, consumer="etl")
    first = stream.poll()
    assert first is not None
    assert table._stores.consumers.find("etl") is None, "nothing was acknowledged"
    stream.acknowledge(first.next_snapshot)
    assert everything(table.stream(consumer="etl")) == [(2, [(2, 0)])]
    ignoring = table.with_options({"consumer-id": "etl", "consumer.ignore-progress": "true"})
    assert [number for number, _ in everything(ignoring.stream(snapshot=1))] == [1, 2]
    table.stream(consumer="new").acknowledge()
    assert table._stores.consumers.find("new") is None, "the whole table is still to be read"
    latest = table.with_options({"scan.mode": "latest"})
    assert [number for number, _ in everything(latest.stream(snapshot=2))] == [2]
    with pytest.raises(InvalidInputError, match="the stream has no consumer"):
        table.stream().acknowledge()
