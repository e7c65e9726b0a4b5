"""Runs are undone after another engine deleted files that they had left in the table, because a tag or snapshot
needed them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, UnavailableError
from lakecore.jobs import expire_snapshots, quarantine
from lakecore.jobs.fsck import Job as Fsck
from lakecore.jobs.fsck import run as check
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.maintain.deletion.runs import RunState
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.maintained import OWNER
from tests.support.meddling_fs import Meddling, MeddlingAfter

QUARANTINE = replace(OWNER, quarantine=True)
COMMITS = 6


def lake(name: str, *tagged: tuple[str, int]) -> FilesystemCatalog:
    """A table with six snapshots, each with one file and row more, and tags."""
    catalog = memory_catalog(f"restored-files-{name}")
    put(key_table(catalog), *([{"k": number, "v": "x"}] for number in range(COMMITS)))
    for tag, snapshot in tagged:
        job = tags.CreateTag(table="d.k", tag=tag, snapshot=snapshot, safety=OWNER)
        tags.run(job, catalog, clock=catalog.clock)
    return catalog


def expired(catalog: FilesystemCatalog) -> str:
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=QUARANTINE)
    return expire_snapshots.run(job, catalog, clock=catalog.clock).run or ""


def undo(catalog: FilesystemCatalog, run: str) -> Any:
    return quarantine.run(quarantine.Undo(run_id=run), catalog, clock=catalog.clock)


def state_of(catalog: FilesystemCatalog, run: str) -> RunState:
    return next(record.state for record in quarantine.runs_of(catalog) if record.id == run)


def snapshots_of(catalog: FilesystemCatalog) -> list[int]:
    return sorted(snapshot.id for snapshot in catalog.load_table("d.k").snapshots())


def damage(catalog: FilesystemCatalog) -> list[str]:
    found = check(Fsck(table="d.k"), catalog).report.findings
    return [str(finding) for finding in found if finding.kind.is_damage]


def delete_lists(catalog: FilesystemCatalog, tag: str = "a") -> None:
    """Delete a tag and its manifest lists, as an engine does for which no other root needs them."""
    stores = catalog.load_table("d.k")._stores
    for name in stores.tags.load(tag).state:
        catalog.file_io.delete(stores.paths.manifest(name))
    catalog.file_io.delete(stores.paths.tag(tag))


def roll_back(catalog: FilesystemCatalog, second: bytes) -> None:
    """Go back to the tag of snapshot 2, whose content is given, as an engine does that knows no lease."""
    paths = catalog.load_table("d.k")._stores.paths
    for number in range(6, 2, -1):
        if catalog.file_io.stat(paths.snapshot(number)) is not None:
            catalog.file_io.delete(paths.snapshot(number))
    catalog.file_io.overwrite(paths.snapshot(2), second)
    catalog.file_io.overwrite(paths.latest_hint, b"2")


def second_of(catalog: FilesystemCatalog) -> bytes:
    return catalog.file_io.read(catalog.load_table("d.k")._stores.paths.snapshot(2))


def test_expired_snapshots_without_their_lists_stay_in_the_quarantine_with_all_older_ones() -> None:
    catalog = lake("lists", ("a", 3), ("b", 2))
    run = expired(catalog)
    delete_lists(catalog)
    delete_lists(catalog, "b")
    report = undo(catalog, run)
    assert snapshots_of(catalog) == [4, 5, 6]
    assert damage(catalog) == []
    note = next(note for note in report.notes if "quarantine" in note)
    assert note.startswith(
        "3 snapshots up to snapshot 3 stay in the quarantine, because snapshot 3 is not whole"
    )
    assert state_of(catalog, run) is RunState.QUARANTINED
    assert undo(catalog, run).files == 0
    assert snapshots_of(catalog) == [4, 5, 6]


def test_a_whole_expiry_is_undone_to_the_end() -> None:
    catalog = lake("whole", ("a", 3))
    run = expired(catalog)
    assert undo(catalog, run).notes == ()
    assert snapshots_of(catalog) == [1, 2, 3, 4, 5, 6]
    assert state_of(catalog, run) is RunState.UNDONE


def test_a_tag_without_its_files_stays_in_the_quarantine_alone() -> None:
    catalog = lake("tag", ("a", 2), ("b", 2), ("c", 3))
    expire_snapshots.run(
        expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=OWNER),
        catalog,
        clock=catalog.clock,
    )
    job = tags.DeleteTag(table="d.k", tags=("b", "c"), safety=QUARANTINE)
    run = tags.run(job, catalog, clock=catalog.clock).run or ""
    delete_lists(catalog)
    report = undo(catalog, run)
    assert list(catalog.load_table("d.k").tags()) == ["c"]
    assert damage(catalog) == []
    assert [note.partition(",")[0] for note in report.notes] == ["tag b stays in the quarantine"]


def test_a_snapshot_above_the_latest_is_restored_although_a_file_is_missing() -> None:
    """It may have rows that no other snapshot has."""
    catalog = lake("rollback")
    run = rolled_back(catalog, 2)
    lost = min(paths_of(catalog.load_table("d.k")))
    catalog.file_io.delete(lost)
    report = undo(catalog, run)
    assert snapshots_of(catalog) == [1, 2, 3, 4, 5, 6]
    notes = [note for note in report.notes if "was restored and is not whole" in note]
    assert len(notes) == 4
    assert all(f"{lost} does not exist; run fsck" in note for note in notes)
    assert state_of(catalog, run) is RunState.UNDONE


def test_roots_go_back_to_the_quarantine_when_a_tag_is_deleted_while_they_are_restored() -> None:
    catalog = lake("meanwhile", ("a", 3))
    run = expired(catalog)
    storage = Meddling(catalog.file_io, "move", "-snapshot-2", lambda: delete_lists(catalog))
    with pytest.raises(
        UnavailableError, match=r"changed in another way while run .* was undone \(.*/tag-a\)"
    ):
        undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [5, 6]
    assert catalog.file_io.read(catalog.load_table("d.k")._stores.paths.earliest_hint) == b"5"
    undo(catalog, run)
    assert snapshots_of(catalog) == [4, 5, 6]
    assert damage(catalog) == []
    assert state_of(catalog, run) is RunState.QUARANTINED


@pytest.mark.parametrize("at", ["-snapshot-4", "-snapshot-1"])
def test_roots_go_back_to_the_quarantine_when_the_table_is_rolled_back_while_they_are_restored(
    at: str,
) -> None:
    catalog = lake(f"rolled{at}", ("a", 2))
    second = second_of(catalog)
    run = expired(catalog)
    storage = Meddling(catalog.file_io, "move", at, lambda: roll_back(catalog, second))
    with pytest.raises((UnavailableError, AlreadyExistsError)):
        undo(replace(catalog, file_io=storage), run)
    assert max(snapshots_of(catalog)) == 2
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1]


def rolled_back(catalog: FilesystemCatalog, snapshot: int) -> str:
    job = rollback.RollbackTo(table="d.k", snapshot=snapshot, safety=QUARANTINE)
    return rollback.run(job, catalog, clock=catalog.clock).run or ""


def without(catalog: FilesystemCatalog, *numbers: int) -> Any:
    """Return a function that removes snapshots, as an engine does that knows no lease."""
    paths = catalog.load_table("d.k")._stores.paths
    return lambda: [catalog.file_io.delete(paths.snapshot(number)) for number in numbers]


def test_older_snapshots_may_expire_while_a_rollback_is_undone() -> None:
    catalog = lake("expires")
    run = rolled_back(catalog, 3)
    storage = Meddling(catalog.file_io, "move", "-snapshot-5", without(catalog, 1, 2))
    undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [3, 4, 5, 6]


def test_snapshots_that_expire_while_older_ones_are_restored_leave_no_gap() -> None:
    """Their engine does not know which files the older ones share with them."""
    catalog = lake("expires-above")
    run = expired(catalog)
    storage = Meddling(catalog.file_io, "move", "-snapshot-1", without(catalog, 5))
    with pytest.raises(UnavailableError, match="snapshot-5"):
        undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [6]


def test_a_further_rollback_stays_while_one_is_undone() -> None:
    catalog = lake("further")
    run = rolled_back(catalog, 4)
    paths = catalog.load_table("d.k")._stores.paths

    def roll_back_further() -> None:
        without(catalog, 4, 3)()
        catalog.file_io.overwrite(paths.latest_hint, b"2")

    storage = Meddling(catalog.file_io, "move", "-snapshot-6", roll_back_further)
    with pytest.raises(UnavailableError, match="snapshot-4"):
        undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [1, 2]
    assert len(rows_of(catalog.load_table("d.k"))) == 2


@pytest.mark.parametrize("removed", [(6, 5, 4), (6, 5)], ids=["whole", "underway"])
def test_a_table_stays_at_the_restored_snapshot_to_which_it_is_rolled_back(removed: tuple[int, ...]) -> None:
    catalog = lake(f"to-restored-{len(removed)}")
    run = expired(catalog)
    paths = catalog.load_table("d.k")._stores.paths

    def roll_back_to_third() -> None:
        without(catalog, *removed)()
        catalog.file_io.overwrite(paths.latest_hint, b"3")

    storage = MeddlingAfter(catalog.file_io, "-snapshot-3", roll_back_to_third)
    with pytest.raises(UnavailableError, match="snapshot-6"):
        undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [1, 2, 3]
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1, 2]


@pytest.mark.parametrize("at", ["-snapshot-3", "-snapshot-1"])
def test_snapshots_that_took_the_place_of_restored_ones_stay(at: str) -> None:
    """A table that is created again has snapshots with the same numbers."""
    catalog = lake(f"again{at}", ("a", 2))
    run = expired(catalog)

    def create_again() -> None:
        for path in paths_of(catalog.load_table("d.k"), ""):
            catalog.file_io.delete(path)
        put(key_table(catalog), *([{"k": key, "v": "new"}] for key in (50, 51, 52)))

    storage = MeddlingAfter(catalog.file_io, at, create_again)
    with pytest.raises((AlreadyExistsError, UnavailableError), match=r"exists again|created again"):
        undo(replace(catalog, file_io=storage), run)
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [50, 51, 52]


def test_an_undo_writes_nothing_into_a_branch_that_it_does_not_restore() -> None:
    """A branch that is deleted meanwhile would leave a directory without a schema."""
    catalog = lake("branch", ("a", 2))
    branches.run(branches.CreateBranch(table="d.k", branch="b", tag="a"), catalog, clock=catalog.clock)
    run = expired(catalog)
    hint = catalog.load_table("d.k")._stores.paths.with_branch("b").latest_hint
    catalog.file_io.delete(hint)
    undo(catalog, run)
    assert snapshots_of(catalog) == [1, 2, 3, 4, 5, 6]
    assert catalog.file_io.stat(hint) is None


def test_an_index_file_that_is_missing_is_named() -> None:
    catalog = memory_catalog("restored-files-index")
    table = key_table(catalog, bucket="-1")
    put(table, *([{"k": 1, "v": str(number)}] for number in range(COMMITS)))
    run = rolled_back(catalog, 2)
    lost = min(paths_of(table, "/index/"))
    catalog.file_io.delete(lost)
    notes = [note for note in undo(catalog, run).notes if "was restored and is not whole" in note]
    assert len(notes) == 4
    assert all(f"{lost} does not exist; run fsck" in note for note in notes)


def test_a_table_that_is_rolled_back_while_files_are_looked_for_keeps_its_rows() -> None:
    """The expired snapshots would become the latest ones."""
    catalog = lake("rolled-back", ("a", 2))
    second = second_of(catalog)
    run = expired(catalog)
    storage = Meddling(catalog.file_io, "read", "/manifest-list-", lambda: roll_back(catalog, second))
    with pytest.raises(AlreadyExistsError, match="snapshot 2 of branch main is the latest"):
        undo(replace(catalog, file_io=storage), run)
    assert snapshots_of(catalog) == [2]
    assert [row[0] for row in rows_of(catalog.load_table("d.k"))] == [0, 1]
    assert state_of(catalog, run) is RunState.QUARANTINED
