"""What a snapshot in the quarantine needs stays where it is: taken back alone, it must not come up with holes."""

from __future__ import annotations

import pytest

from lakecore.jobs import compact, expire_snapshots, quarantine, remove_orphan_files
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import tags
from tests.support.fake_clock import FakeClock
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import History

KEEPING = Safety(owner="test", quarantine=True)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    """Two snapshots that share a data file, and a compaction that removes it."""
    catalog = memory_catalog(f"drop-{request.node.name}")
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "first"}], [{"k": 2, "v": "second"}])
    job = compact.Job(table=table.name, strategy=compact.Strategy.FULL)
    compact.run(job, catalog, clock=catalog.clock)
    return History.of(catalog, table)


def expire(made: History, retained: int, safety: Safety = KEEPING) -> Report:
    job = expire_snapshots.Job(table="d.k", retain_max=retained, retain_min=1, safety=safety)
    return expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)


def undo(made: History, run: Report) -> None:
    quarantine.run(quarantine.Undo(run_id=str(run.run)), made.catalog, clock=made.catalog.clock)


def test_files_of_a_quarantined_snapshot_stay_when_the_next_ones_expire(made: History) -> None:
    data = {path for path in paths_of(made.table) if path.endswith(".parquet")}
    first = expire(made, 2)
    second = expire(made, 1)
    assert made.table._stores.snapshots.list_ids() == (3,)
    assert len(data - paths_of(made.table)) == 1, "of the inputs of the compaction only the second may go"
    undo(made, first)
    assert rows_of(made.table, snapshot=1) == made.rows["snapshot 1"]
    undo(made, second)
    made.check_whole("all is back", orphans=True)
    assert {path for path in paths_of(made.table) if path.endswith(".parquet")} == data


def test_files_of_a_quarantined_snapshot_stay_when_a_tag_goes(made: History) -> None:
    clock = made.catalog.clock
    tags.run(tags.CreateTag(table="d.k", tag="x", snapshot=1), made.catalog, clock=clock)
    first = expire(made, 1)
    tags.run(tags.DeleteTag(table="d.k", tags=("x",), safety=KEEPING), made.catalog, clock=clock)
    undo(made, first)
    assert rows_of(made.table, snapshot=1) == made.rows["snapshot 1"]
    assert rows_of(made.table, snapshot=2) == made.rows["snapshot 2"]


def test_files_of_a_quarantined_snapshot_are_deleted_by_no_chore_without_quarantine(made: History) -> None:
    first = expire(made, 2)
    expire(made, 1, Safety(owner="test"))
    later = FakeClock(4_000_000_000_000)
    job = remove_orphan_files.Job(table="d.k", safety=Safety(owner="test", quarantine=False, purges=False))
    assert remove_orphan_files.run(job, made.catalog, clock=later).nothing_to_do
    undo(made, first)
    assert rows_of(made.table, snapshot=1) == made.rows["snapshot 1"]


def test_when_the_quarantine_is_emptied_the_files_are_orphans(made: History) -> None:
    expire(made, 2)
    expire(made, 1, Safety(owner="test"))
    later = FakeClock(4_000_000_000_000)
    quarantine.run(quarantine.Purge(ttl_ms=1), made.catalog, clock=later)
    job = remove_orphan_files.Job(table="d.k", safety=Safety(owner="test"))
    assert not remove_orphan_files.run(job, made.catalog, clock=later).nothing_to_do
    made.check_whole("nothing is left over", orphans=True)
    assert rows_of(made.table) == made.rows["snapshot 3"]
