"""A table with two writers, of which one renames its snapshots over those of the other."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from lakecore.commit.request import CommitResult
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from tests.support.builders import commit_message, table_schema
from tests.support.commit_table import CommitTable
from tests.support.renaming_writer import RenamingWriter, SteppingClock, SteppingFileIO, Steps

OPTIONS = {"lakecore.commit.settle-time": "200 ms", "manifest.merge-min-count": "3"}
OFF = {"lakecore.commit.settle-time": "0"}
SCHEMA = table_schema(options=OPTIONS)


class Scene:
    """A table with two files, `a` and `b`, and another writer that is about to add `rival`."""

    def __init__(self) -> None:
        self.table = CommitTable(SCHEMA, storage=MemoryFileIO(uuid.uuid4().hex)).created()
        for number, name in enumerate("ab", 1):
            self.table.commit([commit_message(self.table.file(name))], identifier=number, commit_user="setup")
        self.rival = RenamingWriter(self.table)

    def through(self, steps: Steps) -> CommitTable:
        """The table as a committer sees it, with others between its operations."""
        return CommitTable(
            SCHEMA,
            storage=SteppingFileIO(self.table.storage, steps),
            path=self.table.paths.table_path,
            clock=SteppingClock(steps),
        )

    def check_whole(self) -> None:
        """Every file that a snapshot names is there, and each snapshot goes on from the one before it."""
        self.table.referenced()
        assert self.table.missing_data() == []


def append(table: CommitTable) -> list[CommitMessage]:
    return [commit_message(table.file("c"))]


def compact(table: CommitTable) -> list[CommitMessage]:
    before = (table.file("a"), table.file("b"))
    return [commit_message(compact_before=before, compact_after=(table.file("m", level=5, rows=20),))]


def append_and_compact(table: CommitTable) -> list[CommitMessage]:
    return [*append(table), *compact(table)]


KINDS: dict[str, tuple[Callable[[CommitTable], list[CommitMessage]], list[str], dict[str, Any]]] = {
    "append": (append, ["a", "b", "c"], {}),
    "append without identity": (append, ["a", "b", "c"], {"identifier": BATCH_IDENTIFIER}),
    "compaction": (compact, ["m@5"], {}),
    "data and compaction": (append_and_compact, ["c", "m@5"], {}),
}


def commit(kind: str, table: CommitTable, work: Sequence[CommitMessage]) -> CommitResult:
    arguments = {"identifier": 7} | KINDS[kind][2]
    result: CommitResult = table.commit(work, **arguments)
    return result


def operations(kind: str) -> int:
    """How many operations the commit has when it is alone."""
    scene, steps = Scene(), Steps()
    work = KINDS[kind][0](scene.table)
    commit(kind, scene.through(steps), work)
    return steps.count


def check_lineage(table: CommitTable) -> None:
    """Each snapshot's base holds just what the one before it left."""
    ids = table.snapshots.list_ids()
    for before, after in itertools.pairwise(map(table.snapshots.load, ids)):
        base = table.manifests.read(table.manifests.read_list(after.base_manifest_list))
        names = sorted(entry.file.file_name for entry in live_entries(base).rows())
        assert names == sorted(name.partition("@")[0] for name in table.live(before)), after.id


def changelog_scene() -> tuple[Scene, Steps, list[CommitMessage]]:
    """Our snapshot 3 has a changelog; it is replaced when another commit has been built on it as snapshot 4."""
    scene, steps = Scene(), Steps()
    scene.rival.look()

    def others() -> None:
        message = commit_message(scene.table.file("d"))
        scene.table.commit([message], identifier=1, commit_user="other", options=OFF)
        scene.rival.rename()

    steps.on("sleep", "", others)
    return (
        scene,
        steps,
        [commit_message(scene.table.file("c"), changelog_files=(scene.table.file("changes"),))],
    )
