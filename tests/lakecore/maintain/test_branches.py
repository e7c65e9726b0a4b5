"""The name of a branch that exists stays with that branch. What it is after an interruption: tests/faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, CommitConflictError
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, tags
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of
from tests.support.meddling_fs import Meddling


@pytest.fixture
def catalog() -> FilesystemCatalog:
    """Branch `one` has the first row, `two` has both, `empty` none, and main three of them."""
    catalog = memory_catalog("branch-names")
    table = key_table(catalog)
    for key, name in ((1, "one"), (2, "two"), (3, "")):
        put(table, [{"k": key, "v": "x"}])
        if name:
            tags.run(tags.CreateTag(table="d.k", tag=name), catalog, clock=catalog.clock)
            job = branches.CreateBranch(table="d.k", branch=name, tag=name)
            branches.run(job, catalog, clock=catalog.clock)
    branches.run(branches.CreateBranch(table="d.k", branch="empty"), catalog, clock=catalog.clock)
    return catalog


@pytest.mark.parametrize(
    "job",
    [
        branches.CreateBranch(table="d.k", branch="one", tag="two"),
        branches.CreateBranch(table="d.k", branch="one"),
        branches.CreateBranch(table="d.k", branch="empty", tag="two"),
        branches.RenameBranch(table="d.k", branch="two", target_branch="one"),
    ],
    ids=["of a tag", "of nothing", "of a tag, for an empty one", "renamed"],
)
def test_a_branch_that_exists_is_not_replaced(
    catalog: FilesystemCatalog, job: branches.CreateBranch | branches.RenameBranch
) -> None:
    before = paths_of(catalog.load_table("d.k"), "")
    with pytest.raises(AlreadyExistsError, match=r"branch '(one|empty)' of d\.k exists; choose another name"):
        branches.run(job, catalog, clock=catalog.clock)
    assert paths_of(catalog.load_table("d.k"), "") == before
    found = {name: len(rows_of(catalog.load_table(f"d.k$branch_{name}"))) for name in ("one", "two", "empty")}
    assert found == {"one": 1, "two": 2, "empty": 0}


@pytest.mark.parametrize(
    "job",
    [
        branches.DeleteBranch(table="d.k", branch="one", safety=Safety(quarantine=False)),
        branches.RenameBranch(table="d.k", branch="one", target_branch="new"),
    ],
    ids=["deleted", "renamed"],
)
def test_a_branch_to_which_a_writer_commits_meanwhile_is_named(
    catalog: FilesystemCatalog, job: branches.DeleteBranch | branches.RenameBranch
) -> None:
    """The commit comes after the snapshots were removed and before the schema is."""
    table = catalog.load_table("d.k$branch_one")
    schema = table._stores.paths.schema(0)
    late = f"{table._stores.paths.snapshot_dir}/snapshot-9"
    content = catalog.file_io.read(table._stores.paths.snapshot(1))
    storage = Meddling(catalog.file_io, "delete", schema, lambda: catalog.file_io.write_new(late, content))
    with pytest.raises(CommitConflictError, match=r"branch 'one' of d\.k was written while it was removed"):
        branches.run(job, replace(catalog, file_io=storage), clock=catalog.clock)
    assert catalog.file_io.stat(late) is not None
    again = branches.DeleteBranch(table="d.k", branch="one", safety=Safety(quarantine=False))
    branches.run(again, catalog, clock=catalog.clock)
    assert catalog.file_io.stat(late) is None
    assert len(rows_of(catalog.load_table("d.k"))) == 3
