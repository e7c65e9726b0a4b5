"""Branches are directories of that name, and nothing else."""

from __future__ import annotations

import pytest

from lakecore.errors import NotFoundError
from lakecore.fs.memory import MemoryFileIO
from lakecore.store.branches import BranchStore
from lakecore.store.paths import TablePaths


def test_other_files_beside_branches_are_none() -> None:
    file_io = MemoryFileIO("branches")
    file_io.clear()
    paths = TablePaths("memory://branches/t")
    for name in (
        "branch-b/schema/schema-0",
        "branch-a/schema/schema-0",
        "branch-file",
        "other/schema/schema-0",
    ):
        file_io.write_new(f"{paths.branches_dir}/{name}", b"")
    branches = BranchStore(file_io, paths)
    assert branches.list() == ("a", "b")
    assert branches.open("a") == paths.with_branch("a")
    with pytest.raises(NotFoundError, match="available branches: main, a, b"):
        branches.open("file")
