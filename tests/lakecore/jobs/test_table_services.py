"""Services after a commit: compaction and expiry, as writers do unless the table is write-only."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from lakecore import Commit, FilesystemCatalog, Table
from lakecore.errors import InvalidOptionError
from lakecore.jobs import holds
from lakecore.metadata.snapshot import CommitKind
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import EVERY
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, live_files, memory_catalog, rows_of


@pytest.fixture
def catalog() -> FilesystemCatalog:
    return memory_catalog("services")


def streamed(table: Table, numbers: range, user: str = "s") -> list[tuple[str, ...]]:
    """One commit for each number, of one row; the notes of the results."""
    write = table.new_stream_write(user)
    notes = []
    for number in numbers:
        write.write(pa.record_batch({"k": pa.array([number], pa.int32()), "v": [f"v{number}"]}))
        notes.append(write.commit(number, [write.prepare_commit(number)]).notes)
    return notes


def kinds(table: Table) -> list[str]:
    return [snapshot.commit_kind.value for snapshot in reversed(list(table.snapshots()))]


def test_a_stream_compacts_when_runs_pile_up(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, write_only="false")
    assert streamed(table, range(12)) == [()] * 12
    assert kinds(table).count("COMPACT") == 2
    assert max(len({file.level or file.file_name for file in live_files(table)}), 0) < 6
    assert sorted(row[0] for row in rows_of(table)) == list(range(12))


def test_a_write_only_table_is_left_alone(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, snapshot__num_retained__max="2", snapshot__num_retained__min="1")
    streamed(table, range(8))
    assert kinds(table) == ["APPEND"] * 8


def test_every_so_many_commits_are_compacted_fully(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, write_only="false", changelog_producer="full-compaction", full_compaction__delta_commits="3"
    )
    streamed(table, range(1, 8))
    made = [snapshot for snapshot in table.snapshots() if snapshot.commit_kind is CommitKind.COMPACT]
    assert len(made) == 2
    assert sum(snapshot.changelog_record_count or 0 for snapshot in made) == 6


def test_a_batch_is_compacted_fully_at_once(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, write_only="false", changelog_producer="full-compaction", full_compaction__delta_commits="9"
    )
    write = table.new_batch_write()
    write.write(pa.record_batch({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    write.commit([write.prepare_commit()])
    assert kinds(table) == ["APPEND", "COMPACT"]


def test_snapshots_expire_after_commits(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, write_only="false", snapshot__num_retained__max="3", snapshot__num_retained__min="1"
    )
    streamed(table, range(9))
    assert len(list(table.snapshots())) <= 3
    assert len(rows_of(table)) == 9


def test_expiry_in_a_thread_ends_too(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog,
        write_only="false",
        snapshot__num_retained__max="3",
        snapshot__num_retained__min="1",
        snapshot__expire__execution_mode="async",
    )
    streamed(table, range(9))
    for thread in threading.enumerate():
        if thread.name.startswith("expire "):
            thread.join()
    streamed(table, range(9, 10))
    for thread in threading.enumerate():
        if thread.name.startswith("expire "):
            thread.join()
    assert len(list(table.snapshots())) <= 3


def test_a_hold_keeps_what_a_job_would_keep(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, write_only="false", snapshot__num_retained__max="2", snapshot__num_retained__min="1"
    )
    streamed(table, range(2))
    holds.run(holds.HoldTable(table=table.name, reason="look at it"), catalog, None, catalog.clock)
    notes = streamed(table, range(2, 6))
    assert len(list(table.snapshots())) >= 6
    assert all("hold" in " ".join(one) for one in notes)
    assert len(rows_of(table)) == 6


def test_a_consumer_keeps_the_snapshots_that_it_needs(catalog: FilesystemCatalog) -> None:
    table = key_table(
        catalog, write_only="false", snapshot__num_retained__max="2", snapshot__num_retained__min="1"
    )
    streamed(table, range(1))
    stream = table.stream(consumer="c", snapshot=1)
    stream.acknowledge()
    streamed(table, range(1, 6))
    assert min(snapshot.id for snapshot in table.snapshots()) == 1


def test_partitions_expire_once_in_an_interval(catalog: FilesystemCatalog) -> None:
    table = append_table(
        catalog,
        ["v INT", "dt STRING"],
        partitions=["dt"],
        partition__expiration_time="1 d",
        partition__timestamp_formatter="yyyy-MM-dd",
    )
    write = table.new_stream_write("s")
    for number in range(2):
        write.write(pa.record_batch({"v": pa.array([number], pa.int32()), "dt": ["1999-01-01"]}))
        write.commit(number, [write.prepare_commit(number)])
        if number == 0:
            assert rows_of(table) == []  # the first commit of an interval looks
    assert len(rows_of(table)) == 1
    catalog.clock.sleep(2 * 3600)
    write.write(pa.record_batch({"v": pa.array([7], pa.int32()), "dt": ["2999-01-01"]}))
    write.commit(2, [write.prepare_commit(2)])
    assert [row[0] for row in rows_of(table)] == [7]


def test_a_service_that_fails_leaves_the_commit(catalog: FilesystemCatalog) -> None:
    """Storage fails at operations of the services: the rows stay, the result says what failed. Each service has a campaign
    of its own at every operation; `make faults` tries every one here, too.
    """
    done, number = False, 0
    while not done:
        number += 1 if EVERY else 3
        made = memory_catalog(f"services-{number}")
        table = key_table(
            made, write_only="false", snapshot__num_retained__max="2", snapshot__num_retained__min="1"
        )
        streamed(table, range(4))
        write = table.new_stream_write("s")
        write.write(pa.record_batch({"k": pa.array([9], pa.int32()), "v": ["b"]}))
        prepared = write.prepare_commit(9)
        result = table.with_options({"write-only": "true"}).new_stream_write("s").commit(9, [prepared])
        faulty = FaultyFileIO(table._stores.file_io, number, FaultMode.ERROR)
        after = with_stores(table, file_io=faulty)._after_commit(result, ends_input=False)
        done = not faulty.fired
        assert after.snapshot_ids == result.snapshot_ids
        assert done or after.notes or len(rows_of(table)) == 5
        assert len(rows_of(table)) == 5
    assert number > 20


def test_the_options_of_services_are_checked_before_rows_are_written(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, write_only="false")
    bad = replace(table, _stores=replace(table._stores, schema=replace(
        table.schema, options={**table.schema.options, "snapshot.expire.execution-mode": "later"})))  # fmt: skip
    with pytest.raises(InvalidOptionError, match="execution-mode"):
        bad.new_stream_write("s")
    with pytest.raises(InvalidOptionError, match="execution-mode"):
        bad.new_batch_write(commit=Commit(user="u"))


def test_the_time_between_full_compactions_counts_from_the_last_one(catalog: FilesystemCatalog) -> None:
    table = key_table(catalog, write_only="false", compaction__optimization_interval="1 h")
    streamed(table, range(2))
    assert kinds(table) == ["APPEND", "APPEND", "COMPACT"]
    streamed(table, range(2, 4))
    assert kinds(table)[3:] == ["APPEND", "APPEND"]
    catalog.clock.sleep(2 * 3600)
    streamed(table, range(4, 5))
    assert kinds(table)[5:] == ["APPEND", "COMPACT"]
