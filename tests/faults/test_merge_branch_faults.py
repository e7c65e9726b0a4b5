"""Branches are merged while others commit, and while storage fails: no row twice, none lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidInputError, LakeError, UnsupportedError
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import branches, merge_branch
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, key_table, memory_catalog, put, rows_of
from tests.support.maintained import OWNER, History
from tests.support.meddling_fs import Meddling

BOTH = sorted([(number, "x") for number in (1, 2, 3, 11, 12)], key=repr)


def branched(name: str) -> History:
    """Two commits on main, two on branch `b` after the first."""
    lake = memory_catalog(name)
    table = append_table(lake)
    branches.run(branches.CreateBranch(table="d.a", branch="b"), lake, clock=lake.clock)
    put(table, *([{"v": number, "p": "x"}] for number in (1, 2)))
    put(table.at_branch("b"), *([{"v": number, "p": "x"}] for number in (11, 12)))
    put(table, [{"v": 3, "p": "x"}])
    return History.of(lake, table)


def merge(lake: FilesystemCatalog, **other: Any) -> Report:
    job = merge_branch.Job(**{"table": "d.a", "source_branch": "b", "safety": OWNER} | other)
    return merge_branch.run(job, lake, clock=lake.clock)


MEDDLERS: dict[str, tuple[Callable[[History], object], list[tuple[int, str]]]] = {
    "an append": (lambda made: put(made.table, [{"v": 4, "p": "x"}]), [(4, "x")]),
    "the same merge": (lambda made: merge(made.catalog, safety=Safety(lease_ms=0)), []),
}


@pytest.mark.parametrize("meddler", MEDDLERS)
def test_commits_at_the_same_time_are_taken_into_account(meddler: str) -> None:
    made = branched(f"merge-{meddler[-5:]}")
    meddle, more = MEDDLERS[meddler]
    storage = Meddling(made.catalog.file_io, "publish", "snapshot/snapshot-4", lambda: meddle(made))
    merge(made.through(storage))
    assert rows_of(made.table) == sorted([*BOTH, *more], key=repr)
    made.check_whole(meddler, orphans=True)


def test_files_that_another_merge_added_and_an_overwrite_removed_do_not_return() -> None:
    made = branched("merge-removed")

    def meddle() -> None:
        merge(made.catalog, safety=Safety(lease_ms=0))
        made.table.overwrite(pa.Table.from_pylist([{"v": 9, "p": "x"}]))

    storage = Meddling(made.catalog.file_io, "publish", "snapshot/snapshot-4", meddle)
    with pytest.raises(UnsupportedError, match="snapshot 5 of branch 'main' has kind OVERWRITE"):
        merge(made.through(storage))
    assert rows_of(made.table) == [(9, "x")]


@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD_AFTER_EFFECT])
def test_every_operation_fails_once(mode: FaultMode) -> None:
    made = branched(f"merge-faults-{mode.value}")
    before = rows_of(made.table)
    for number in itertools.count(1):
        made.reset()
        storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
        try:
            merge(made.through(storage))
        except LakeError:
            assert rows_of(made.table) in (before, BOTH)
        merge(made.catalog)
        assert rows_of(made.table) == BOTH, storage.log[number - 1 : number]
        made.check_whole(f"operation {number}", orphans=False)
        if not storage.fired:
            assert number > 15
            return


REFUSED: dict[str, tuple[Callable[[History], object], str]] = {
    "overwritten": (
        lambda made: made.table.overwrite(pa.Table.from_pylist([{"v": 9, "p": "x"}])),
        "snapshot 4 of branch 'main' has kind OVERWRITE",
    ),
    "expired": (
        lambda made: made.catalog.file_io.delete(made.table.at_branch("b")._stores.paths.snapshot(1)),
        "snapshot 1 of branch 'b' has expired",
    ),
    "altered": (
        lambda made: made.catalog.file_io.overwrite(
            made.table.at_branch("b")._stores.paths.schema(0),
            made.catalog.file_io.read(made.table._stores.paths.schema(0)).replace(b'"v"', b'"w"'),
        ),
        "different columns",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_proven_is_refused_untouched(case: str) -> None:
    made = branched(f"merge-refused-{case}")
    damage, problem = REFUSED[case]
    damage(made)
    made = History.of(made.catalog, made.table)
    with pytest.raises(UnsupportedError, match=problem):
        merge(made.catalog)
    assert made.untouched()
    with pytest.raises(InvalidInputError, match="into itself"):
        merge(made.catalog, target_branch="b")


def test_tables_with_keys_are_refused() -> None:
    lake = memory_catalog("merge-keys")
    put(key_table(lake), [{"k": 1, "v": "x"}])
    branches.run(branches.CreateBranch(table="d.k", branch="b"), lake, clock=lake.clock)
    put(lake.load_table("d.k").at_branch("b"), [{"k": 2, "v": "x"}])
    with pytest.raises(UnsupportedError, match="has primary keys"):
        merge(lake, table="d.k")
