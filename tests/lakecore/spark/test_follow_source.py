"""The streaming source of a dedicated compactor, called as Spark calls it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakecore import FilesystemCatalog
from lakecore.errors import CorruptDataError
from lakecore.jobs import compact
from lakecore.jobs.compact.follow import CompactionFollower
from lakecore.jobs.compact.follow_store import FollowStore
from lakecore.jobs.compact.table_states import TableState
from lakecore.jobs.watching.watch import WatchPosition
from lakecore.spark.follow_source import FollowRead, FollowReader, source_class
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put

LIMIT = ReadAllAvailable()


class Query:
    """A driver and its source, which share nothing but the store, as two processes do."""

    def __init__(self, catalog: FilesystemCatalog, *names: str, job: str = "j", once: bool = False) -> None:
        self.read = FollowRead(catalog, lambda: names, "/checkpoint", job)
        self.reader = FollowReader(self.read)
        if once:
            self.reader.prepareForTriggerAvailableNow()
        self.follower = CompactionFollower(catalog, lambda: names, self._compact)
        self.follower.restore(self.read.store().load("/checkpoint", job))
        self.catalog = catalog
        self.offset: Mapping[str, Any] = self.reader.initialOffset()

    def trigger(self) -> list[compact.Report] | None:
        """The reports of a micro-batch, None if there is none."""
        end = self.reader.latestOffset(self.offset, LIMIT)
        if end == self.offset:
            return None
        rows = self.rows(self.offset, end)
        reports = self.follower.compact_due([row["table"] for row in rows], rows[0]["round"])
        self.read.store().save("/checkpoint", self.read.job, self.follower.states)
        self.offset = end
        return list(reports)

    def rows(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[dict[str, Any]]:
        (part,) = self.reader.partitions(start, end)
        executors = pickle.loads(pickle.dumps(self.reader))
        return [row for batch in executors.read(part) for row in batch.to_pylist()]

    def _compact(self, names: Sequence[str]) -> list[compact.Report]:
        jobs = [compact.Job(table=name, strategy=compact.Strategy.FULL) for name in names]
        return compact.run_many(jobs, self.catalog, None, self.catalog.clock)


def test_one_micro_batch_for_each_change() -> None:
    catalog = memory_catalog("follow-source")
    table = key_table(catalog)
    query = Query(catalog, "d.k")
    assert query.trigger() is None
    put(table, [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    assert [report.snapshots for report in query.trigger() or ()] == [(3,)]
    assert query.offset == {"round": 2, "tables": {"d.k": 2}}
    assert [query.trigger() for _ in range(3)] == [None, None, None]  # its own compaction is no change
    put(table, [{"k": 2, "v": "c"}])
    assert [report.snapshots for report in query.trigger() or ()] == [(5,)]
    assert query.offset == {"round": 6, "tables": {"d.k": 4}}


def test_an_idle_round_costs_one_check_and_one_read_of_a_snapshot() -> None:
    catalog = memory_catalog("follow-source-idle")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    query = Query(catalog, "d.k")
    assert query.trigger()
    assert query.trigger() is None
    assert query.reader._tables is not None
    snapshots = query.reader._tables.snapshots("d.k")
    counted = FaultyFileIO(snapshots.file_io)
    object.__setattr__(snapshots, "file_io", counted)
    assert query.trigger() is None
    assert [line.rpartition("/")[2] for line in counted.log] == ["snapshot-3", "snapshot-2"], counted.log


def test_a_query_that_starts_again_knows_what_was_done() -> None:
    catalog = memory_catalog("follow-source-again")
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}])
    first = Query(catalog, "d.k")
    assert first.trigger()
    again = Query(catalog, "d.k")
    again.offset = first.offset
    assert again.trigger() is None
    other_job = Query(catalog, "d.k", job="another one")
    other_job.offset = first.offset
    assert [report.nothing_to_do for report in other_job.trigger() or ()] == [True]


def test_a_batch_that_was_killed_has_the_same_tables_again() -> None:
    """Spark asks for the rows between the offsets of its checkpoint."""
    catalog = memory_catalog("follow-source-killed")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    end = Query(catalog, "d.k").reader.latestOffset({"round": 0, "tables": {}}, LIMIT)
    rows = Query(catalog, "d.k").rows({"round": 0, "tables": {}}, end)
    assert rows == [{"table": "d.k", "snapshot": 1, "round": 1}]


def test_a_table_that_fails_rests_and_does_not_end_the_query() -> None:
    catalog = memory_catalog("follow-source-fails")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    query = Query(catalog, "d.missing", "d.k")
    reports = {report.table: report.error for report in query.trigger() or ()}
    assert reports["d.k"] is None
    assert "d.missing" in (reports["d.missing"] or "")
    assert [query.trigger() is None for _ in range(3)] == [True, False, True]
    restarted = Query(catalog, "d.missing", "d.k")
    restarted.offset = query.offset
    assert [restarted.trigger() is None for _ in range(4)] == [True, True, True, False]


def test_available_now_is_one_round_in_which_no_table_rests() -> None:
    catalog = memory_catalog("follow-source-once")
    put(key_table(catalog), [{"k": 1, "v": "a"}])
    query = Query(catalog, "d.missing", "d.k", once=True)
    assert len(query.trigger() or ()) == 2
    assert query.trigger() is None
    again = Query(catalog, "d.missing", "d.k", once=True)
    again.offset = query.offset
    assert [report.table for report in again.trigger() or ()] == ["d.missing"]


def test_a_table_that_is_listed_no_more_is_forgotten() -> None:
    catalog = memory_catalog("follow-source-dropped")
    names = ["d.k", "d.other"]
    follower = CompactionFollower(catalog, lambda: names, lambda _: ())
    follower.restore({name: TableState(WatchPosition(1, 2)) for name in names})
    follower.compact_due([], 1)
    assert set(follower.states) == {"d.k", "d.other"}
    names.pop()
    follower.compact_due([], 10)
    follower.compact_due([], 11)
    assert set(follower.states) == {"d.k"}


def test_a_damaged_state_is_named() -> None:
    catalog = memory_catalog("follow-source-damaged")
    store = FollowStore(catalog.file_io, catalog.warehouse)
    store.save("/checkpoint", "j", {"d.k": TableState(WatchPosition(3, 4), 1, 7)})
    assert store.load("/checkpoint", "j") == {"d.k": TableState(WatchPosition(3, 4), 1, 7)}
    (path,) = [status.path for status in catalog.file_io.list(store.root)]
    for wrong in (b"", b"[]", b'{"version": 2, "job": "j", "tables": {}}'):
        catalog.file_io.overwrite(path, wrong)
        with pytest.raises(CorruptDataError, match="delete it"):
            store.load("/checkpoint", "j")


def test_the_format_names_its_columns() -> None:
    source = source_class("follow-1", FollowRead(memory_catalog("follow-source-name"), list, "q", "j"))
    assert source.name() == "follow-1"
    assert source({}).schema() == "table STRING, snapshot BIGINT, round BIGINT"
