"""What `purge-files` leaves, refuses and repeats; that Java agrees is tests/interop/test_purge_files_oracle.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError, OnHoldError
from lakecore.jobs import holds, purge_files
from lakecore.jobs.definitions.repair import HoldTable
from lakecore.jobs.runner.chore import Report, Safety
from tests.support.chores import FUTURE, busy
from tests.support.lake import key_table, paths_of, put, rows_of
from tests.support.maintained import History

OWNER = Safety(owner="test", purges=False)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    return busy(f"purge-{request.node.name}")


def purge(lake: FilesystemCatalog, *, dry_run: bool = False, table: str = "d.k", user: str = "") -> Report:
    job = purge_files.Job(table=table, dry_run=dry_run, commit_user=user, safety=OWNER)
    return purge_files.run(job, lake, clock=FUTURE)


def test_a_dry_run_changes_nothing_and_names_what_goes(made: History) -> None:
    before = made.state()
    planned = purge(made.catalog, dry_run=True)
    assert made.state() == before
    files = made.files()
    done = purge(made.catalog)
    gone = files - made.files()
    hints = {path for path in gone if path.endswith("/changelog/LATEST")}
    assert set(planned.names) == set(done.names) == gone - hints
    assert (planned.snapshots, done.snapshots, done.snapshot) == ((2, 3), (2, 3), 4)
    assert planned.after is not None
    assert (planned.after.files, planned.after.snapshots) == (0, 1)


def test_files_that_a_writer_has_not_committed_yet_stay(made: History) -> None:
    young = f"{made.table.path}/bucket-0/left"
    purge_files.run(purge_files.Job(table="d.k", safety=OWNER), made.catalog, clock=made.catalog.clock)
    assert paths_of(made.table) == {young}


def test_a_repeated_run_leaves_rows_that_were_written_since(made: History) -> None:
    first = purge(made.catalog, user="job")
    put(made.table, [{"k": 9, "v": "since"}])
    second = purge(made.catalog, user="job")
    assert (second.snapshot, second.nothing_to_do) == (first.snapshot, True)
    assert rows_of(made.table) == [(9, "since")]
    assert purge(made.catalog, user="another").snapshots == (first.snapshot, 5)
    assert rows_of(made.table) == []


def test_a_table_without_a_snapshot_gets_an_empty_one(made: History) -> None:
    lake = made.catalog
    table = lake.create_table("d.e", {"columns": ["v INT"]})
    lake.file_io.write_new(f"{table.path}/bucket-0/left", b"x")
    report = purge(lake, table="d.e")
    assert (report.snapshot, report.names) == (1, (f"{table.path}/bucket-0/left",))
    assert purge(lake, table="d.e").nothing_to_do


def test_directories_of_a_branch_that_a_killed_run_left_are_removed(tmp_path: Path) -> None:
    """Java takes them for a branch that it cannot read. All files went before the run was killed."""
    lake = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    put(key_table(lake), [{"k": 1, "v": "x"}])
    purge_files.run(purge_files.Job(table="d.k", safety=OWNER), lake)
    branch = tmp_path / "d.db" / "k" / "branch" / "branch-b"
    (branch / "snapshot").mkdir(parents=True)
    job = purge_files.Job(table="d.k", safety=OWNER)
    assert purge_files.run(replace(job, dry_run=True), lake).nothing_to_do
    assert branch.exists()
    assert purge_files.run(job, lake).nothing_to_do
    assert not branch.exists()


def test_branches_and_tables_on_hold_are_refused(made: History) -> None:
    before = made.state()
    with pytest.raises(InvalidInputError, match="name the table without a branch"):
        purge(made.catalog, table="d.k$branch_x")
    holds.run(HoldTable(table="d.k", reason="audit"), made.catalog, clock=made.catalog.clock)
    with pytest.raises(OnHoldError, match="audit"):
        purge(made.catalog)
    assert made.state() == before
