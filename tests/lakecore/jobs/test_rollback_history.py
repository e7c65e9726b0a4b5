"""A tag may be of a snapshot that a rollback removed: its number says nothing about the history of today."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakecore.fs.walk import files_below
from lakecore.jobs import expire_snapshots, quarantine
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, rollback, tags
from tests.support.lake import append_table, memory_catalog, put, rows_of
from tests.support.maintained import History
from tests.support.meddling_fs import Meddling

OWNER = Safety(owner="test")


@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_tag_of_another_history_is_no_state_to_go_back_to(later: int) -> None:
    """Snapshot 3 has the tag; the table went back to 1 and on, before the tag was restored: with two and more
    commits there is another snapshot 3.
    """
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}], [{"v": 3}])
    tags.run(tags.CreateTag(table=table.name, tag="good"), catalog, clock=clock)
    deleted = tags.run(tags.DeleteTag(table=table.name, tags=("good",), safety=OWNER), catalog, clock=clock)
    assert deleted.run is not None
    rollback.run(rollback.RollbackTo(table=table.name, snapshot=1, safety=OWNER), catalog, clock=clock)
    put(table, *([{"v": 10 + number}] for number in range(later)))
    quarantine.run(Undo(run_id=deleted.run, safety=OWNER), catalog, clock=clock)
    before = rows_of(table)
    job = rollback.RollbackTo(table=table.name, tag="good", safety=OWNER)
    with pytest.raises(InvalidInputError, match="rollback-to-as-latest --tag good"):
        rollback.run(job, catalog, clock=clock)
    assert rows_of(table) == before
    assert table._stores.snapshots.list_ids() == tuple(range(1, later + 2))
    again = rollback.RollbackToAsLatest(table=table.name, tag="good", safety=OWNER)
    rollback.run(again, catalog, clock=clock)
    assert rows_of(table) == [(1,), (2,), (3,)]


def test_a_tag_of_the_latest_snapshot_is_a_state() -> None:
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    tags.run(tags.CreateTag(table=table.name, tag="good"), catalog, clock=clock)
    job = rollback.RollbackTo(table=table.name, tag="good", safety=OWNER)
    assert rollback.run(job, catalog, clock=clock).nothing_to_do


def _without_parameters(catalog: Any, run: str) -> None:
    """The record as earlier releases wrote it."""
    storage = catalog.file_io
    runs = files_below(storage, f"{catalog.warehouse}/.lakecore/runs")
    [path] = [path for path in runs if path.endswith(f"{run}/run.json")]
    storage.overwrite(path, json.dumps(json.loads(storage.read(path)) | {"parameters": {}}).encode())


def _rolled_back(commits: int, snapshot: int) -> tuple[Any, Any, Any]:
    """A table with so many commits that was rolled back to an earlier one, and the run."""
    catalog = memory_catalog()
    table = append_table(catalog, ("v INT",))
    put(table, *([{"v": number}] for number in range(1, commits + 1)))
    job = rollback.RollbackTo(table=table.name, snapshot=snapshot, safety=OWNER)
    report = rollback.run(job, catalog, clock=catalog.clock)
    return catalog, table, Undo(run_id=report.run or "", safety=OWNER)


def test_an_undo_does_not_hide_a_commit_since() -> None:
    """Snapshot 2 had expired: the commit after the rollback has its number, and nothing is in the way."""
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}])
    tags.run(tags.CreateTag(table=table.name, tag="first"), catalog, clock=clock)
    put(table, [{"v": 2}], [{"v": 3}], [{"v": 4}])
    expire_snapshots.run(
        expire_snapshots.Job(table=table.name, retain_max=2, retain_min=1, safety=OWNER), catalog, clock=clock
    )
    job = rollback.RollbackTo(table=table.name, tag="first", safety=OWNER)
    undo = Undo(run_id=rollback.run(job, catalog, clock=clock).run or "", safety=OWNER)
    put(table, [{"v": 9}])
    with pytest.raises(AlreadyExistsError, match="snapshot 2 of branch main is the latest, but the run"):
        quarantine.run(undo, catalog, clock=clock)
    assert rows_of(table) == [(1,), (9,)]
    back = rollback.RollbackTo(table=table.name, snapshot=1, safety=OWNER)
    rollback.run(back, catalog, clock=clock)
    quarantine.run(undo, catalog, clock=clock)
    assert rows_of(table) == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("recorded", [True, False])
def test_an_undo_of_an_earlier_rollback_knows_the_snapshot_that_it_left(recorded: bool) -> None:
    """Back to 3, back to 2, and one commit: snapshot 3 is another one. Earlier ledgers have times only."""
    catalog, table, undo = _rolled_back(6, 3)
    back = rollback.RollbackTo(table=table.name, snapshot=2, safety=OWNER)
    rollback.run(back, catalog, clock=catalog.clock)
    catalog.clock.sleep(1)
    put(table, [{"v": 9}])
    if not recorded:
        _without_parameters(catalog, undo.run_id)
    with pytest.raises(AlreadyExistsError, match="snapshot 3 of branch main is the latest, but the run"):
        quarantine.run(undo, catalog, clock=catalog.clock)
    assert rows_of(table) == [(1,), (2,), (9,)]


@pytest.mark.parametrize("recorded", [True, False])
def test_an_undo_restores_what_a_rollback_removed(recorded: bool) -> None:
    catalog, table, undo = _rolled_back(5, 2)
    if not recorded:
        _without_parameters(catalog, undo.run_id)
    quarantine.run(undo, catalog, clock=catalog.clock)
    assert rows_of(table) == [(1,), (2,), (3,), (4,), (5,)]


def test_an_undo_that_was_interrupted_is_completed() -> None:
    """It restores the oldest snapshot first, which is the latest then."""
    catalog, table, undo = _rolled_back(5, 2)
    storage, paths = catalog.file_io, table._stores.paths
    [place] = [
        path for path in files_below(storage, f"{catalog.warehouse}/.lakecore/runs") if "snapshot-3" in path
    ]
    storage.move(place, paths.snapshot(3))
    quarantine.run(undo, catalog, clock=catalog.clock)
    assert rows_of(table) == [(1,), (2,), (3,), (4,), (5,)]


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
def test_an_undo_replaces_no_tag_that_was_made_again(meanwhile: bool) -> None:
    """Neither that of before, which stops it before anything is moved, nor that of meanwhile: both tags stay."""
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, *([{"v": number}] for number in range(1, 5)))
    tags.run(tags.CreateTag(table=table.name, tag="late", snapshot=4), catalog, clock=clock)
    back = rollback.RollbackTo(table=table.name, snapshot=2, safety=OWNER)
    undo = Undo(run_id=rollback.run(back, catalog, clock=clock).run or "", safety=OWNER)

    stores, storage = table._stores, catalog.file_io

    def tag_again() -> None:
        """Others know of no lease."""
        stores.file_io.publish(stores.paths.tag("late"), stores.file_io.read(stores.paths.snapshot(2)))

    if meanwhile:
        storage = Meddling(storage, "delete", "/snapshot/EARLIEST", tag_again)
    else:
        tag_again()
    before = stores.snapshots.list_ids(), sorted(files_below(catalog.file_io, stores.paths.root))
    with pytest.raises(AlreadyExistsError, match="tag-late exists again with other content"):
        quarantine.run(undo, replace(catalog, file_io=storage), clock=clock)
    assert stores.tags.load("late").id == 2
    if not meanwhile:
        assert before == (
            stores.snapshots.list_ids(),
            sorted(files_below(catalog.file_io, stores.paths.root)),
        )
        assert rows_of(table) == [(1,), (2,)]
    catalog.file_io.delete(stores.paths.tag("late"))
    quarantine.run(undo, catalog, clock=clock)
    assert stores.tags.load("late").id == 4
    assert rows_of(table) == [(1,), (2,), (3,), (4,)]


def test_an_undo_makes_no_branch_without_a_schema() -> None:
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}])
    branches.run(branches.CreateBranch(table=table.name, branch="x"), catalog, clock=clock)
    name = f"{table.name}$branch_x"
    put(catalog.load_table(name), [{"v": 2}], [{"v": 3}])
    safety = Safety(owner="test", quarantine=True)
    expire = expire_snapshots.Job(table=name, retain_max=1, retain_min=1, safety=safety)
    expired = expire_snapshots.run(expire, catalog, clock=clock)
    delete = branches.DeleteBranch(table=table.name, branch="x", safety=OWNER)
    deleted = branches.run(delete, catalog, clock=clock)
    undo = Undo(run_id=expired.run or "", safety=OWNER)
    with pytest.raises(NotFoundError, match="files of branch x, which was deleted or renamed since"):
        quarantine.run(undo, catalog, clock=clock)
    assert table._stores.branches.list() == ()
    quarantine.run(Undo(run_id=deleted.run or "", safety=OWNER), catalog, clock=clock)
    quarantine.run(undo, catalog, clock=clock)
    branch = catalog.load_table(name)
    assert branch._stores.snapshots.list_ids() == (1, 2)
    assert rows_of(branch) == [(2,), (3,)]


def test_an_undo_of_an_expiry_does_not_take_back_a_rollback() -> None:
    """Snapshots 2 and 3 expired; the table is at the tag of snapshot 1 since, which is older than the expiry."""
    catalog = memory_catalog()
    clock, table = catalog.clock, append_table(catalog, ("v INT",))
    put(table, [{"v": 1}])
    tags.run(tags.CreateTag(table=table.name, tag="first"), catalog, clock=clock)
    put(table, [{"v": 2}], [{"v": 3}], [{"v": 4}])
    safety = Safety(owner="test", quarantine=True)
    expire = expire_snapshots.Job(table=table.name, retain_max=1, retain_min=1, safety=safety)
    undo = Undo(run_id=expire_snapshots.run(expire, catalog, clock=clock).run or "", safety=OWNER)
    back = rollback.RollbackTo(table=table.name, tag="first", safety=OWNER)
    undo_back = Undo(run_id=rollback.run(back, catalog, clock=clock).run or "", safety=OWNER)
    with pytest.raises(AlreadyExistsError, match="snapshot 1 of branch main is the latest, but the run"):
        quarantine.run(undo, catalog, clock=clock)
    assert rows_of(table) == [(1,)]
    quarantine.run(undo_back, catalog, clock=clock)
    quarantine.run(undo, catalog, clock=clock)
    assert table._stores.snapshots.list_ids() == (1, 2, 3, 4)


def test_a_rollback_that_another_commit_delays_leaves_no_file_of_its_first_try() -> None:
    catalog = memory_catalog("rollback-delayed")
    table = append_table(catalog, ("v INT",))
    put(table, [{"v": 1}], [{"v": 2}])
    made = History.of(catalog, table)
    storage = Meddling(catalog.file_io, "publish", "snapshot/snapshot-3", lambda: put(table, [{"v": 3}]))
    job = rollback.RollbackToAsLatest(table=table.name, snapshot=1, safety=OWNER)
    rollback.run(job, made.through(storage), clock=catalog.clock)
    assert rows_of(table) == [(1,)]
    made.check_whole("rolled back", orphans=True)
