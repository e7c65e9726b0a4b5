"""Chores that remove roots while another process, which holds no lease, rolls the table back or creates it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import CommitConflictError, UnavailableError
from lakecore.jobs import expire_snapshots, purge_files
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.maintain.deletion import root_guard
from tests.support.fake_clock import FakeClock
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
