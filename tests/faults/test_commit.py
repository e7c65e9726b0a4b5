"""A commit with storage failing at operation 1, 2, 3, … until it gets through.

After each fault: the table reads as one of the states the commit may leave, every file a snapshot names is
there and whole, and the same commit made again lands exactly once.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakecore.commit.request import Overwrite
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.commit_message import CommitMessage
from tests.support.builders import commit_message, table_schema
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultMode, FaultyFileIO

SCHEMA = table_schema(options={"manifest.merge-min-count": "2"})


class Scenario:
    """A commit to a table with some history, and the states it goes through."""

    def __init__(
        self,
        messages: Callable[[CommitTable], Sequence[CommitMessage]],
        states: Sequence[Sequence[str]],
        snapshots: Sequence[str],
        **arguments: Any,
    ) -> None:
        self.messages = messages
        self.states = [sorted(state) for state in states]
        self.snapshots = list(snapshots)
        self.arguments = arguments

    def prepare(self, storage: FileIO, path: str) -> CommitTable:
        table = CommitTable(SCHEMA, storage=storage, path=path).created()
        table.commit([commit_message(table.file("a"))], identifier=1, commit_user="setup")
        table.commit([commit_message(table.file("b"))], identifier=2, commit_user="setup")
        self.work = self.messages(table)
        return table

    def run(self, table: CommitTable) -> Any:
        return table.commit(self.work, identifier=7, **self.arguments)


def append(table: CommitTable) -> Sequence[CommitMessage]:
    return [commit_message(table.file("c"), table.file("d"))]


def append_and_compact(table: CommitTable) -> Sequence[CommitMessage]:
    merged = table.file("m", level=5)
    before = (table.file("a"), table.file("b"))
    return [commit_message(table.file("c"), compact_before=before, compact_after=(merged,))]


SCENARIOS = {
    "append": lambda: Scenario(append, ["ab", "abcd"], ["3 APPEND u/7"]),
    "append and compact": lambda: Scenario(
        append_and_compact, ["ab", "abc", ["c", "m@5"]], ["3 APPEND u/7", "4 COMPACT u/7"]
    ),
    "overwrite": lambda: Scenario(append, ["ab", "cd"], ["3 OVERWRITE u/7"], overwrite=Overwrite.table()),
}
SETUP = ["1 APPEND setup/1", "2 APPEND setup/2"]


def memory(tmp_path: Path) -> tuple[FileIO, str]:
    name = uuid.uuid4().hex
    return MemoryFileIO(name), f"memory://{name}/t"


def local(tmp_path: Path) -> tuple[FileIO, str]:
    return LocalFileIO(sync=False), f"{tmp_path}/{uuid.uuid4().hex}"


CASES = [*((name, memory) for name in SCENARIOS), ("append", local)]


@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_every_operation_fails_once(
    name: str, place: Callable[[Path], tuple[FileIO, str]], mode: FaultMode, tmp_path: Path
) -> None:
    for number in itertools.count(1):
        scenario = SCENARIOS[name]()
        table = scenario.prepare(*place(tmp_path))
        storage = FaultyFileIO(table.storage, number, mode)
        error = _attempt(scenario, table.through(storage))
        where = f"operation {number}: {storage.log[number - 1 : number]}, then {error!r}"
        _check_state(scenario, table, error, where)
        again = scenario.run(table)
        _check_done(scenario, table, again.snapshot_ids, where)
        if not storage.fired:
            assert number > 10
            return


def _attempt(scenario: Scenario, table: CommitTable) -> BaseException | None:
    try:
        scenario.run(table)
    except (LakeError, KeyboardInterrupt) as err:
        return err
    return None


def _check_state(scenario: Scenario, table: CommitTable, error: BaseException | None, where: str) -> None:
    state = table.live()
    assert state in scenario.states, where
    table.referenced()
    assert table.missing_data() == [], where
    if error is None:
        assert state == scenario.states[-1], where
    elif not isinstance(error, (CommitUncertainError, KeyboardInterrupt)):
        # a certain failure: nothing of the commit is visible, so its files may be removed
        assert state == scenario.states[0], where


def _check_done(scenario: Scenario, table: CommitTable, ids: tuple[int, ...], where: str) -> None:
    assert table.live() == scenario.states[-1], where
    assert table.history() == SETUP + scenario.snapshots, where
    assert len(ids) == len(scenario.snapshots), where
    latest = table.snapshots.latest()
    assert latest is not None, where
    assert latest.total_record_count == 10 * len(table.live()), where
    table.referenced()


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_error_before_anything_was_published_leaves_no_debris(name: str) -> None:
    """Single errors: the manifests of the failed try are removed again."""
    for number in itertools.count(1):
        scenario = SCENARIOS[name]()
        table = scenario.prepare(MemoryFileIO(uuid.uuid4().hex), "memory://t/t")
        storage = FaultyFileIO(table.storage, number)
        error = _attempt(scenario, table.through(storage))
        if error is not None and not isinstance(error, CommitUncertainError):
            assert table.orphans() == set(), storage.log[number - 1]
        if not storage.fired:
            return
