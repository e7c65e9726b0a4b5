"""Chores that remove roots while another process, which holds no lease, rolls the table back or creates it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, CommitConflictError, NotFoundError, UnavailableError
from lakecore.jobs import analyze, expire_snapshots, purge_files, quarantine
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.maintain.deletion import root_guard
from lakecore.maintain.hints import repair_hints
from lakecore.metadata.schema_change import AddColumn
from lakecore.types.datatypes import parse_type
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import OWNER
from tests.support.meddling_fs import Meddling, MeddlingAfter
from tests.support.rolled import go_back

COMMITS = 6


def lake(name: str) -> FilesystemCatalog:
    """A table with six snapshots, each with one row more, and a tag of the second."""
    catalog = memory_catalog(f"changed-beneath-{name}")
    put(key_table(catalog), *([{"k": number, "v": "x"}] for number in range(COMMITS)))
    tags.run(tags.CreateTag(table="d.k", tag="a", snapshot=2, safety=OWNER), catalog, clock=catalog.clock)
    return catalog


def go_back_and_write(catalog: FilesystemCatalog, number: int) -> None:
    go_back(catalog, number)
    put(catalog.load_table("d.k"), *([{"k": key, "v": "new"}] for key in range(10, 10 + COMMITS - number)))


def create_again(catalog: FilesystemCatalog) -> None:
    for path in paths_of(catalog.load_table("d.k"), ""):
        catalog.file_io.delete(path)
    catalog.clock.sleep(1)
    key_table(catalog)


def add_column(catalog: FilesystemCatalog, name: str = "d.k", column: str = "x") -> None:
    catalog.alter_table(name, [AddColumn(path=(column,), type=parse_type("INT"))])


def expire(catalog: FilesystemCatalog) -> Any:
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=OWNER)
    return expire_snapshots.run(job, catalog, clock=catalog.clock)


def roll_back(catalog: FilesystemCatalog) -> Any:
    job = rollback.RollbackTo(table="d.k", snapshot=2, safety=OWNER)
    return rollback.run(job, catalog, clock=catalog.clock)


@pytest.mark.parametrize("change", [go_back, go_back_and_write])
def test_an_expiry_removes_no_snapshot_of_a_table_that_was_rolled_back(change: Any) -> None:
    """It would remove all of them: those that were to remain went with the rollback, or have other numbers."""
    catalog = lake(f"{change.__name__}")
    storage = Meddling(catalog.file_io, "write_new", "files.jsonl", lambda: change(catalog, 3))
    with pytest.raises(UnavailableError, match="rolled back, created again or changed in another way"):
        expire(replace(catalog, file_io=storage))
    table = catalog.load_table("d.k")
    assert min(snapshot.id for snapshot in table.snapshots()) == 1
    keys = [0, 1, 2] if change is go_back else [0, 1, 2, 10, 11, 12]
    assert sorted(row[0] for row in rows_of(table)) == keys
    expire(catalog)
    assert sorted(row[0] for row in rows_of(table)) == keys


def test_a_rollback_leaves_the_snapshots_of_a_table_whose_history_expired_beneath() -> None:
    """Nothing would remain: the state to which it goes back is gone."""
    catalog = lake("expired")
    paths = catalog.load_table("d.k")._stores.paths

    def expired() -> None:
        for number in range(1, COMMITS):
            catalog.file_io.delete(paths.snapshot(number))

    storage = Meddling(catalog.file_io, "write_new", "files.jsonl", expired)
    with pytest.raises(UnavailableError, match="rolled back, created again or changed in another way"):
        roll_back(replace(catalog, file_io=storage))
    assert len(rows_of(catalog.load_table("d.k"))) == COMMITS


def test_a_tag_that_was_created_again_beneath_its_removal_stays() -> None:
    catalog = lake("tag")
    paths = catalog.load_table("d.k")._stores.paths

    def create_again() -> None:
        catalog.file_io.overwrite(paths.tag("a"), catalog.file_io.read(paths.snapshot(4)))

    storage = Meddling(catalog.file_io, "write_new", "files.jsonl", create_again)
    job = tags.DeleteTag(table="d.k", tags=("a",), safety=OWNER)
    with pytest.raises(UnavailableError, match="tag-a"):
        tags.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert len(rows_of(catalog.load_table("d.k"), tag="a")) == 4


def test_roots_are_looked_at_again_before_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_guard, "_BATCH", 2)
    catalog = lake("batches")
    storage = Meddling(catalog.file_io, "delete", "snapshot-2", lambda: go_back(catalog, 4))
    with pytest.raises(UnavailableError, match="rolled back, created again or changed in another way"):
        expire(replace(catalog, file_io=storage))
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1, 2, 3]


def test_a_purge_removes_no_snapshot_of_a_table_that_was_created_again() -> None:
    catalog = lake("purge")

    def recreate() -> None:
        create_again(catalog)
        put(catalog.load_table("d.k"), [{"k": 1, "v": "of the new table"}])

    storage = Meddling(catalog.file_io, "write_new", "files.jsonl", recreate)
    job = purge_files.Job(table="d.k", safety=OWNER)
    with pytest.raises(UnavailableError):
        purge_files.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert rows_of(catalog.load_table("d.k")) == [(1, "of the new table")]


@pytest.mark.parametrize("at", [("list", "branch-b/snapshot"), ("write_new", "files.jsonl")])
def test_a_fast_forward_beneath_which_a_writer_commits_says_so_and_removes_nothing(
    at: tuple[str, str],
) -> None:
    """The snapshot of the writer would remain the latest one, so main would not be what the branch is."""
    catalog = lake(f"forward-{at[0]}")
    branches.run(branches.CreateBranch(table="d.k", branch="b", tag="a"), catalog, clock=catalog.clock)
    storage = Meddling(catalog.file_io, *at, lambda: put(catalog.load_table("d.k"), [{"k": 50, "v": "new"}]))
    job = branches.FastForward(table="d.k", branch="b", safety=OWNER)
    with pytest.raises(CommitConflictError, match="a writer committed snapshot-7 to main while"):
        branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1, 2, 3, 4, 5, 50]
    assert sorted(one.id for one in catalog.load_table("d.k").snapshots()) == [1, 2, 3, 4, 5, 6, 7]
    branches.run(job, catalog, clock=catalog.clock)
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1]


def test_a_fast_forward_names_a_commit_that_came_while_it_removed_snapshots() -> None:
    catalog = lake("forward-late")
    branches.run(branches.CreateBranch(table="d.k", branch="b", tag="a"), catalog, clock=catalog.clock)
    late = catalog.file_io.read(catalog.load_table("d.k")._stores.paths.snapshot(6)).replace(
        b'"id": 6', b'"id": 7'
    )
    place = catalog.load_table("d.k")._stores.paths.snapshot(7)
    storage = Meddling(catalog.file_io, "move", "snapshot-4", lambda: catalog.file_io.publish(place, late))
    job = branches.FastForward(table="d.k", branch="b", safety=OWNER)
    with pytest.raises(CommitConflictError, match="a writer committed snapshot-7 to main while"):
        branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    branches.run(job, catalog, clock=catalog.clock)
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1]


def test_a_purge_leaves_the_manifests_that_were_committed_after_its_list_of_orphans() -> None:
    """Its own empty snapshot names them."""
    catalog = lake("purge-late")
    storage = Meddling(
        catalog.file_io, "list", "/manifest", lambda: put(catalog.load_table("d.k"), [{"k": 50, "v": "new"}])
    )
    later = FakeClock(4_000_000_000_000)
    purge_files.run(
        purge_files.Job(table="d.k", safety=OWNER), replace(catalog, file_io=storage), clock=later
    )
    assert rows_of(catalog.load_table("d.k")) == []
    put(catalog.load_table("d.k"), [{"k": 1, "v": "x"}])
    assert rows_of(catalog.load_table("d.k")) == [(1, "x")]


def test_a_rollback_removes_no_snapshot_of_a_history_that_began_anew_beneath() -> None:
    """Their numbers are above that of the state, so they would be taken for late commits."""
    catalog = lake("rollback-anew")
    paths = catalog.load_table("d.k")._stores.paths
    kept = catalog.file_io.read(paths.snapshot(6))

    def begin_anew() -> None:
        catalog.file_io.overwrite(paths.snapshot(6), kept)
        for number in (1, 2):
            catalog.file_io.delete(paths.snapshot(number))

    storage = MeddlingAfter(catalog.file_io, paths.snapshot(3), begin_anew)
    with pytest.raises(UnavailableError, match="to snapshot 2, which does not exist any more"):
        roll_back(replace(catalog, file_io=storage))
    assert [one.id for one in catalog.load_table("d.k").snapshots()] == [6]
    assert catalog.file_io.read(paths.latest_hint) == b"6"


def test_hints_name_no_snapshot_that_a_rollback_removed_meanwhile() -> None:
    catalog = lake("hints")
    paths = catalog.load_table("d.k")._stores.paths
    catalog.file_io.delete(paths.latest_hint)
    storage = Meddling(catalog.file_io, "read", "snapshot/LATEST", lambda: go_back(catalog, 2))
    repair_hints(storage, paths)
    assert catalog.file_io.stat(paths.latest_hint) is None
    assert len(rows_of(catalog.load_table("d.k"))) == 2


def test_an_undo_has_no_hint_of_the_earliest_snapshot_while_it_restores_older_ones() -> None:
    """Java's rollback removes the snapshots from this hint on."""
    catalog = lake("undo-earliest")
    job = expire_snapshots.Job(
        table="d.k", retain_max=2, retain_min=1, safety=replace(OWNER, quarantine=True)
    )
    run = expire_snapshots.run(job, catalog, clock=catalog.clock).run
    paths = catalog.load_table("d.k")._stores.paths
    hints: list[Any] = []

    def look() -> None:
        hints.append(catalog.file_io.stat(paths.earliest_hint))

    storage = Meddling(catalog.file_io, "move", "-snapshot-4", look)
    quarantine.run(quarantine.Undo(run_id=run or ""), replace(catalog, file_io=storage), clock=catalog.clock)
    assert hints == [None]
    assert catalog.file_io.read(paths.earliest_hint) == b"1"


def rolled_back_to_quarantine(catalog: FilesystemCatalog) -> quarantine.Undo:
    job = rollback.RollbackTo(table="d.k", snapshot=3, safety=replace(OWNER, quarantine=True))
    return quarantine.Undo(run_id=rollback.run(job, catalog, clock=catalog.clock).run or "")


def test_an_undo_restores_nothing_into_a_table_that_was_created_since() -> None:
    """It has no snapshots, so each of those of the dropped table would become its latest."""
    catalog = lake("undo-created-since")
    undo = rolled_back_to_quarantine(catalog)
    create_again(catalog)
    with pytest.raises(NotFoundError, match="renamed, or dropped and perhaps created again, since the run"):
        quarantine.run(undo, catalog, clock=catalog.clock)
    assert list(catalog.load_table("d.k").snapshots()) == []


@pytest.mark.parametrize("at", [("list", "/kept"), ("delete", "snapshot/EARLIEST"), ("move", "-snapshot-4")])
def test_an_undo_ends_when_the_table_is_created_again_beneath(at: tuple[str, str]) -> None:
    catalog = lake(f"undo-created-{at[0]}")
    undo = rolled_back_to_quarantine(catalog)
    storage: FaultyFileIO
    if at[0] == "move":
        storage = MeddlingAfter(catalog.file_io, at[1], lambda: create_again(catalog))
    else:
        storage = Meddling(catalog.file_io, *at, lambda: create_again(catalog))
    with pytest.raises((NotFoundError, UnavailableError), match="created again"):
        quarantine.run(undo, replace(catalog, file_io=storage), clock=catalog.clock)
    assert list(catalog.load_table("d.k").snapshots()) == []


def test_an_undo_beneath_which_the_table_is_rolled_back_restores_no_newer_snapshots() -> None:
    """Without the snapshot that was removed they have a gap, and the rollback would be taken back."""
    catalog = lake("undo-rolled-back")
    undo = rolled_back_to_quarantine(catalog)
    storage = MeddlingAfter(catalog.file_io, "-snapshot-4", lambda: go_back(catalog, 3))
    with pytest.raises(UnavailableError, match=r"rolled back.*while run .* was undone \(.*snapshot-4\)"):
        quarantine.run(undo, replace(catalog, file_io=storage), clock=catalog.clock)
    assert [one.id for one in catalog.load_table("d.k").snapshots()] == [3, 2, 1]
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1, 2]


def test_an_undo_of_an_expiry_beneath_which_main_becomes_an_older_branch_restores_nothing_above() -> None:
    catalog = lake("undo-forwarded")
    stores = catalog.load_table("d.k")._stores
    second = catalog.file_io.read(stores.paths.snapshot(2))
    job = expire_snapshots.Job(
        table="d.k", retain_max=1, retain_min=1, safety=replace(OWNER, quarantine=True)
    )
    run = expire_snapshots.run(job, catalog, clock=catalog.clock).run

    def forward() -> None:
        """As Java's fast-forward to a branch with the snapshots 2 and 3, of which the latter is its own."""
        for number in stores.snapshots.list_ids():
            catalog.file_io.delete(stores.paths.snapshot(number))
        catalog.file_io.overwrite(stores.paths.snapshot(2), second)
        catalog.file_io.overwrite(stores.paths.latest_hint, b"2")
        put(catalog.load_table("d.k"), [{"k": 9, "v": "of the branch"}])

    storage = Meddling(catalog.file_io, "delete", "snapshot/EARLIEST", forward)
    with pytest.raises(AlreadyExistsError, match="there was a commit or a rollback since"):
        quarantine.run(
            quarantine.Undo(run_id=run or ""), replace(catalog, file_io=storage), clock=catalog.clock
        )
    assert [one.id for one in catalog.load_table("d.k").snapshots()] == [3, 2]


def forwarded(name: str) -> tuple[FilesystemCatalog, Any]:
    """A table with branch `b` of its second snapshot, and the job that fast-forwards main to it."""
    catalog = lake(name)
    branches.run(branches.CreateBranch(table="d.k", branch="b", tag="a"), catalog, clock=catalog.clock)
    return catalog, branches.FastForward(table="d.k", branch="b", safety=OWNER)


@pytest.mark.parametrize("before", [False, True])
def test_a_fast_forward_leaves_the_schema_of_a_commit_that_came_meanwhile(before: bool) -> None:
    """Without it the commit could not be read."""
    catalog, job = forwarded(f"forward-schema-{before}")
    if before:
        add_column(catalog)
        add_column(catalog, column="y")

    def write() -> None:
        if not before:
            add_column(catalog)
        put(catalog.load_table("d.k"), [{"k": 50, "v": "new", "x": 1}])

    storage = MeddlingAfter(catalog.file_io, "/snapshot-3", write)
    branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1, 50]


def test_a_fast_forward_leaves_the_schema_by_which_main_was_altered_meanwhile() -> None:
    catalog, job = forwarded("forward-alone")
    storage = MeddlingAfter(catalog.file_io, "/snapshot-3", lambda: add_column(catalog))
    branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert rows_of(catalog.load_table("d.k")) == [(0, "x", None), (1, "x", None)]


@pytest.mark.parametrize("late", [False, True])
def test_a_fast_forward_says_that_main_was_altered_meanwhile(late: bool) -> None:
    """The schema of the branch would replace the new one, which has the same number."""
    catalog, job = forwarded(f"forward-altered-{late}")
    add_column(catalog, "d.k$branch_b", "z")
    storage = (
        MeddlingAfter(catalog.file_io, "/snapshot-3", lambda: add_column(catalog))
        if late
        else Meddling(catalog.file_io, "write_new", "files.jsonl", lambda: add_column(catalog))
    )
    with pytest.raises(
        CommitConflictError, match=r"main was altered \(schema 1\) while it was fast-forwarded"
    ):
        branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert catalog.load_table("d.k").schema.row_type.names == ("k", "v", "x")
    assert len(rows_of(catalog.load_table("d.k"))) == (2 if late else COMMITS)
    branches.run(job, catalog, clock=catalog.clock)
    assert catalog.load_table("d.k").schema.row_type.names == ("k", "v", "z")


def test_an_analysis_commits_no_statistics_to_a_table_that_was_created_again() -> None:
    """Their file went with the dropped table."""
    catalog = lake("analyze")

    def recreate() -> None:
        create_again(catalog)
        put(catalog.load_table("d.k"), [{"k": 1, "v": "of the new table"}])

    storage = Meddling(catalog.file_io, "write_new", "manifest-list", recreate)
    with pytest.raises(CommitConflictError, match="was changed while it was being analyzed"):
        analyze.run(
            analyze.Job(table="d.k", columns=("k",)), replace(catalog, file_io=storage), clock=catalog.clock
        )
    assert [one.statistics for one in catalog.load_table("d.k").snapshots()] == [None]
