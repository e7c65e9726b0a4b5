"""The numbers of a run's commits have no gaps, and what it committed is never removed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakecore.compact.engine.commit_loop import CommitDraft, CommitLoopResult
from lakecore.compact.engine.request import RunName
from lakecore.compact.engine.run_commits import MAX_COMMITS, CommitPlan, RunCommits
from lakecore.errors import CommitConflictError, ProofError
from lakecore.jobs.runner.lake import rewrite_target
from tests.support.lake import append_table, memory_catalog, put


class Nothing:
    """Commits of names, whose snapshots change no file; `refused` are not what was proven."""

    overwrites = False
    preconditions = None

    def __init__(self, refused: tuple[str, ...]) -> None:
        self._refused = refused

    def draft(self, items: Sequence[str]) -> CommitDraft:
        found = {n: ProofError(item, "no") for n, item in enumerate(items) if item in self._refused}
        return CommitDraft(messages=(), faults=lambda: found)

    def affected(self, items: Sequence[str], err: CommitConflictError) -> list[str]:
        return list(items)


def commits(until_ms: int | None = None) -> RunCommits:
    catalog = memory_catalog("run-commits")
    table = append_table(catalog)
    put(table, [{"v": 1}])
    name = RunName(commit_user="u", identifier=7 << 10, until_ms=until_ms)
    return RunCommits(rewrite_target(table, catalog.clock), name)


def committed(run: RunCommits, *groups: list[str], most: int = 10) -> list[CommitLoopResult[str]]:
    """Commit all but "a", which is refused."""
    found: list[CommitLoopResult[str]] = []
    commits, one = Nothing(refused=("a",)), lambda name: [name]
    plan = CommitPlan(commits=commits, new_names=one, on_commit=found.append, most=most)
    run.commit_all((group for group in groups), plan)
    return found


def test_items_are_committed_when_there_are_enough_and_at_the_end() -> None:
    run = commits()
    found = committed(run, ["b"], ["c", "d"], ["a"], ["e"], most=3)
    assert [landed.items for landed in found] == [("b", "c", "d"), ("e",)]
    assert (run.commit_count, run.committed) == (2, {"b", "c", "d", "e"})


def test_a_commit_of_which_nothing_is_left_takes_no_number() -> None:
    """A gap would let an attempt that was overtaken commit: it would not find its number taken."""
    run = commits()
    first = run.identifier
    (landed,) = committed(run, ["a"])
    assert [item for item, _ in landed.refused] == ["a"]
    assert (run.identifier, run.commit_count, run.committed) == (first, 0, set())
    committed(run, ["a", "b"])
    assert (run.identifier, run.commit_count, run.committed) == (first + 1, 1, {"b"})


def test_a_run_ends_after_so_many_commits() -> None:
    run = commits()
    for _ in range(MAX_COMMITS):
        assert run.may_continue()
        run.add(())
    assert not run.may_continue()
    assert run.stopped


@pytest.mark.parametrize("uncertain", [False, True])
def test_files_that_are_left_over_go_unless_a_commit_is_uncertain(*, uncertain: bool) -> None:
    run = commits()
    file_io, (table_path,) = run.target.stores.file_io, {run.target.stores.root}
    directory = f"{table_path}/bucket-0"
    for name in ("own-1", "own-2", "own-3", "other"):
        file_io.write_new(f"{directory}/{name}", b"x")
    run.add(["own-2"])
    run.guard.uncertain = uncertain
    run.clean([f"{directory}/own-1", f"{directory}/own-2"], [directory], lambda name: name.startswith("own"))
    left = {status.name for status in file_io.list(directory)}
    assert {"own-2", "other"} <= left
    assert ({"own-1", "own-3"} <= left) is uncertain
