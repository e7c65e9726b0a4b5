"""What keeps a snapshot or file is named; the quarantine is emptied by age and by size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import InvalidInputError, LakeError, NotFoundError, UnavailableError
from lakecore.jobs import expire_snapshots, quarantine, why
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import rollback, tags
from lakecore.maintain.deletion import quarantine as quarantine_of
from lakecore.maintain.deletion.runs import RunState, RunStore
from tests.support.fake_clock import FakeClock
from tests.support.maintained import History, history
from tests.support.meddling_fs import Meddling


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    return history(f"why-{request.node.name}")


def test_why_names_what_holds_a_file_and_a_snapshot(made: History) -> None:
    store = made.table._stores.snapshots
    manifest = store.load(2).base_manifest_list
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True))
    expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)

    def ask(subject: str | None) -> Report:
        return why.run(why.Job(table="d.k", subject=subject), made.catalog, clock=made.catalog.clock)

    assert ask(manifest).names == ("tag a needs it", "snapshot 2 in quarantine needs it")
    assert ask("2").names == ("tag a needs it",)
    assert ask("nothing.parquet").nothing_to_do
    assert [name.split(" keeps")[0] for name in ask(None).names] == ["tag a", "tag b"]


def test_the_quarantine_is_emptied_by_age_and_by_size(made: History) -> None:
    report = expire_snapshots.run(
        expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True)),
        made.catalog,
        clock=made.catalog.clock,
    )
    kept = made.quarantined()
    assert kept == report.files
    purge = quarantine.Purge(ttl_ms=10**12, cap=10**12)
    assert quarantine.run(purge, made.catalog, clock=made.catalog.clock).nothing_to_do
    quarantine.run(replace(purge, cap=0), made.catalog, clock=made.catalog.clock)
    assert made.quarantined() == 0
    with pytest.raises(
        LakeError, match="is purged: the quarantine has deleted its files since, so there is nothing"
    ):
        quarantine.run(quarantine.Undo(run_id=str(report.run)), made.catalog, clock=made.catalog.clock)


def test_a_rollback_to_the_latest_moves_nothing_and_says_so(made: History) -> None:
    lake = made.catalog
    job = rollback.RollbackTo(
        table="d.k", snapshot=made.table._stores.snapshots.list_ids()[-1], safety=Safety(quarantine=True)
    )
    report = rollback.run(job, lake, clock=lake.clock)
    assert (report.nothing_to_do, report.quarantined) == (True, False)
    last = RunStore(lake.file_io, lake.warehouse, lake.clock).list("d.k")[-1]
    assert (last.id, last.state, last.outcome["files"]) == (report.run, RunState.DONE, 0)
    with pytest.raises(InvalidInputError, match="is done: it moved no file into the quarantine, so"):
        quarantine.run(quarantine.Undo(run_id=last.id), lake, clock=lake.clock)


def test_a_run_is_taken_back_once(made: History) -> None:
    lake = made.catalog
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True))
    undo = quarantine.Undo(run_id=str(expire_snapshots.run(job, lake, clock=lake.clock).run))
    assert quarantine.run(undo, lake, clock=lake.clock).files
    with pytest.raises(InvalidInputError, match="is undone: it was restored already"):
        quarantine.run(undo, lake, clock=lake.clock)


def test_the_quarantine_keeps_files_for_as_long_as_asked(made: History) -> None:
    clock = made.catalog.clock
    assert isinstance(clock, FakeClock)
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True))
    expire_snapshots.run(job, made.catalog, clock=clock)
    kept, hour = made.quarantined(), 3_600_000
    clock.time_ms += hour
    assert quarantine.run(quarantine.Purge(ttl_ms=hour), made.catalog, clock=clock).nothing_to_do
    assert made.quarantined() == kept > 0
    clock.time_ms += 1
    assert not quarantine.run(quarantine.Purge(ttl_ms=hour), made.catalog, clock=clock).nothing_to_do
    assert made.quarantined() == 0


def test_only_the_oldest_runs_beyond_the_size_leave_the_quarantine(made: History) -> None:
    for retained in (4, 3):
        job = expire_snapshots.Job(
            table="d.k", retain_max=retained, retain_min=1, safety=Safety(quarantine=True)
        )
        expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)
        made.catalog.clock.sleep(1)
    runs = RunStore(made.catalog.file_io, made.catalog.warehouse, made.catalog.clock)
    old, new = runs.list("d.k")[-2:]
    sizes = [quarantine_of.quarantined_size(runs, record) for record in (old, new)]
    assert min(sizes) > 0
    quarantine.run(
        quarantine.Purge(ttl_ms=10**12, cap=sum(sizes) - 1), made.catalog, clock=made.catalog.clock
    )
    assert [record.state for record in runs.list("d.k")[-2:]] == [RunState.PURGED, RunState.QUARANTINED]
    quarantine.run(quarantine.Purge(ttl_ms=10**12, cap=sizes[1]), made.catalog, clock=made.catalog.clock)
    assert [record.state for record in runs.list("d.k")[-2:]] == [RunState.PURGED, RunState.QUARANTINED]


def test_no_tag_is_made_of_a_snapshot_that_has_just_gone(made: History) -> None:
    storage, paths = made.catalog.file_io, made.table._stores.paths
    ids = made.table._stores.snapshots.list_ids()
    gone = next(number for number in ids if number not in (2, 4, ids[-1]))
    lake = made.through(
        Meddling(storage, "publish", paths.tag("fresh"), lambda: storage.delete(paths.snapshot(gone)))
    )
    with pytest.raises(NotFoundError, match=f"snapshot {gone} of d.k expired while it was being tagged"):
        tags.run(tags.CreateTag(table="d.k", tag="fresh", snapshot=gone), lake, clock=lake.clock)
    assert storage.stat(paths.tag("fresh")) is None


def test_a_tag_stays_where_another_tag_still_keeps_its_snapshot(made: History) -> None:
    storage, paths = made.catalog.file_io, made.table._stores.paths
    lake = made.through(
        Meddling(storage, "publish", paths.tag("fresh"), lambda: storage.delete(paths.snapshot(2)))
    )
    tags.run(tags.CreateTag(table="d.k", tag="fresh", snapshot=2), lake, clock=lake.clock)
    assert made.table._stores.tags.load("fresh").id == 2


def test_a_tag_that_is_set_to_a_snapshot_that_has_just_gone_says_so(made: History) -> None:
    storage, paths = made.catalog.file_io, made.table._stores.paths
    ids = made.table._stores.snapshots.list_ids()
    gone = next(number for number in ids if number not in (2, 4, ids[-1]))
    lake = made.through(
        Meddling(storage, "overwrite", paths.tag("a"), lambda: storage.delete(paths.snapshot(gone)))
    )
    with pytest.raises(UnavailableError, match=f"snapshot {gone} of d.k expired while tag 'a' was set to it"):
        tags.run(tags.ReplaceTag(table="d.k", tag="a", snapshot=gone), lake, clock=lake.clock)
