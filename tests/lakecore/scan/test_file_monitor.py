"""The file monitor: all files first, then what each snapshot removed and added."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakecore.errors import ExpiredError
from lakecore.predicate.parse import parse_where
from lakecore.scan.file_monitor import FileChanges, FileMonitor
from lakecore.table import Table
from tests.support.lake import key_table, live_files, memory_catalog, put


def names(one: FileChanges) -> tuple[set[str], set[str]]:
    return {file.file_name for file in one.before}, {file.file_name for file in one.after}


def followed(table: Table, monitor: FileMonitor) -> set[str]:
    """The names of live files, by the plans alone."""
    found: set[str] = set()
    for plan in monitor:
        if plan.full:
            found = set()
        for one in plan.buckets:
            before, after = names(one)
            assert before <= found
            found = found - before | after
    return found


def test_nothing_before_the_first_snapshot() -> None:
    table = key_table(memory_catalog())
    monitor = FileMonitor(table._scanner)
    assert monitor.poll() is None
    assert monitor.snapshot_id is None
    put(table, [{"k": 1, "v": "a"}])
    plan = monitor.poll()
    assert plan is not None
    assert (plan.full, plan.snapshot.id, monitor.snapshot_id) == (True, 1, 1)
    assert monitor.poll() is None


def test_each_snapshot_has_a_plan_compactions_included() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}])
    monitor = FileMonitor(table._scanner)
    first = monitor.poll()
    assert first is not None
    (old,) = live_files(table)
    put(table, [{"k": 2, "v": "b"}])
    (new,) = [file for file in live_files(table) if file != old]
    table.overwrite(pa.table({"k": pa.array([3], pa.int32()), "v": ["c"]}))
    (last,) = live_files(table)
    plans = list(monitor)
    assert [(plan.snapshot.id, plan.full) for plan in plans] == [(2, False), (3, False)]
    assert [names(one) for plan in plans for one in plan.buckets] == [
        (set(), {new.file_name}),
        ({old.file_name, new.file_name}, {last.file_name}),
    ]
    assert [one.total_buckets for plan in plans for one in plan.buckets] == [1, 1]


def test_an_expired_position_names_what_is_left() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}])
    monitor = FileMonitor(table._scanner)
    monitor.poll()
    put(table, [{"k": 2, "v": "b"}], [{"k": 3, "v": "c"}], [{"k": 4, "v": "d"}])
    for snapshot in (1, 2):
        table._stores.file_io.delete(table._stores.paths.snapshot(snapshot))
    with pytest.raises(ExpiredError, match="snapshots 3 to 4 exist: start again"):
        monitor.poll()
    monitor.restart()
    assert followed(table, monitor) == {file.file_name for file in live_files(table)}


def test_a_start_that_expired_names_what_is_left() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    start = table.snapshot(1)
    monitor = FileMonitor(table._scanner, start=start)
    paths = table._stores.paths
    for path in (paths.snapshot(1), paths.manifest(start.base_manifest_list)):
        table._stores.file_io.delete(path)
    with pytest.raises(ExpiredError, match="available snapshots are 2"):
        monitor.poll()
    monitor.restart()
    assert followed(table, monitor) == {file.file_name for file in live_files(table)}


def test_a_table_that_was_rolled_back_is_noticed() -> None:
    table = key_table(memory_catalog())
    put(table, [{"k": 1, "v": "a"}], [{"k": 2, "v": "b"}])
    monitor = FileMonitor(table._scanner)
    monitor.poll()
    paths, storage = table._stores.paths, table._stores.file_io
    storage.delete(paths.snapshot(2))
    table._stores.snapshots.write_hints(1)
    with pytest.raises(ExpiredError, match="rolled back"):
        monitor.poll()
    put(table, [{"k": 3, "v": "c"}], [{"k": 4, "v": "d"}])
    with pytest.raises(ExpiredError, match="was replaced"):
        monitor.poll()
    monitor.restart()
    assert followed(table, monitor) == {file.file_name for file in live_files(table)}
    storage.delete(paths.snapshot(3))
    table._stores.snapshots.write_hints(2)
    put(table, [{"k": 5, "v": "e"}])  # as many commits as were lost
    with pytest.raises(ExpiredError, match="was replaced"):
        monitor.poll()


def test_partitions_can_be_left_out() -> None:
    table = key_table(memory_catalog(), ("p INT", "k INT", "v STRING"), ("p", "k"), ("p",))
    put(table, [{"p": 1, "k": 1, "v": "a"}, {"p": 2, "k": 1, "v": "b"}])
    monitor = FileMonitor(table._scanner, parse_where("p = 2", table.schema.row_type))
    put(table, [{"p": 1, "k": 3, "v": "c"}, {"p": 2, "k": 4, "v": "d"}])
    assert [one.partition_values for plan in monitor for one in plan.buckets] == [(2,)]
    put(table, [{"p": 1, "k": 3, "v": "c"}, {"p": 2, "k": 4, "v": "d"}])
    assert [one.partition_values for plan in monitor for one in plan.buckets] == [(2,)]
