"""Chores that remove roots while another process, which holds no lease, rolls the table back or creates it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, UnavailableError
from lakecore.jobs import expire_snapshots, purge_files, quarantine
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.maintain.deletion import root_guard
from lakecore.maintain.hints import repair_hints
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import OWNER
from tests.support.meddling_fs import Meddling
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
        for path in paths_of(catalog.load_table("d.k"), ""):
            catalog.file_io.delete(path)
        put(key_table(catalog), [{"k": 1, "v": "of the new table"}])

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

    storage = _AfterLast(catalog.file_io, paths.snapshot(3), begin_anew)
    with pytest.raises(UnavailableError, match="to snapshot 2, which does not exist any more"):
        roll_back(replace(catalog, file_io=storage))
    assert [one.id for one in catalog.load_table("d.k").snapshots()] == [6]
    assert catalog.file_io.read(paths.latest_hint) == b"6"


class _AfterLast(FaultyFileIO):
    """Calls `change` once, at the operation after the removal of `path`."""

    def __init__(self, inner: Any, path: str, change: Any) -> None:
        super().__init__(inner)
        self._path, self._change = path, change

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = super().operation(name, path, effect, torn)
        if name in ("move", "delete") and path == self._path and self._change is not None:
            change, self._change = self._change, None
            change()
        return result


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
