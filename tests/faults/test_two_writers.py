"""Lakecore next to a writer that looks whether a snapshot's name is free and then renames over it, as Java Paimon does.

No timing: the other writer's two steps are put before each operation of lakecore's commit, and each wait is one.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lakecore.commit.descendant_search import DescendantSearch
from lakecore.commit.duplicates import DuplicateSearch
from lakecore.commit.index_changes import IndexChange
from lakecore.commit.plan import Change
from lakecore.commit.request import CommitResult, Overwrite
from lakecore.commit.view import LiveView
from lakecore.errors import CommitUncertainError, LakeError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind
from tests.support.builders import commit_message, table_schema
from tests.support.commit_table import CommitTable
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.meddling_fs import Meddling
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_rename_at_every_point_loses_nothing_and_doubles_nothing(kind: str) -> None:
    """The other writer looks before operation `i` and renames before operation `j`, for all `i <= j`."""
    work_of, expected, _ = KINDS[kind]
    count = operations(kind)
    replaced = 0
    stride = 5 if kind == "data and compaction" else 1  # it has twice as many operations
    for look in range(1, count + 1, stride):
        for rename in range(look, count + 1):
            scene = Scene()
            work = work_of(scene.table)
            steps = Steps()
            steps.add(look, scene.rival.look)
            steps.add(rename, scene.rival.rename)
            result = commit(kind, scene.through(steps), work)
            where = f"look {look}, rename {rename}: {scene.table.history()}"
            over = scene.rival.over
            scene.check_whole()
            if over is not None and steps.settled(over.id) < rename:
                assert kind == "data and compaction"  # the data had settled when it was replaced
                continue
            check_lineage(scene.table)
            assert scene.table.live() == sorted([*expected, "rival"]), where
            if over is not None:
                replaced += 1
                assert any("replaced by commit 1 of rival" in note for note in result.notes), where
                assert any(f"repeated as snapshot {over.id + 1}" in note for note in result.notes), where
            else:
                assert result.notes == (), where
    assert replaced > 10


def test_a_rename_after_the_settle_time_is_beyond_what_can_be_seen() -> None:
    """The documented limit, shown so that nobody takes the guard for more than it is."""
    scene = Scene()
    scene.rival.look()
    assert scene.table.commit(append(scene.table), identifier=7).notes == ()
    scene.rival.rename()
    assert scene.table.live() == ["a", "b", "rival"]
    again = scene.table.commit(append(scene.table), identifier=7)  # what a repeated job does
    assert not again.duplicate
    assert scene.table.live() == ["a", "b", "c", "rival"]


def test_without_a_settle_time_the_replacement_is_not_noticed() -> None:
    """The guard is what the other tests show: without it the commit is lost."""
    scene = Scene()
    steps = Steps()
    table = scene.through(steps)
    steps.on("overwrite", "LATEST", scene.rival.rename)
    scene.rival.look()
    table.commit(append(table), identifier=7, options=OFF)
    assert scene.table.live() == ["a", "b", "rival"]


@given(st.data())
@hypothesis_settings(max_examples=150, deadline=None)
def test_a_third_writer_in_between(data: st.DataObject) -> None:
    """Two committers of lakecore and the renaming writer, at any points: both commits of lakecore are in the table
    exactly once, and where what the third one changed is lost somebody says so.
    """
    scene = Scene()
    work = append(scene.table)
    first, second = Steps(), Steps()
    results: list[CommitResult] = []

    def other() -> None:
        table = scene.through(second)
        results.append(table.commit([commit_message(table.file("d"))], identifier=1, commit_user="other"))

    look = data.draw(st.integers(1, 45), "look")
    first.add(look, scene.rival.look)
    rename = data.draw(st.integers(1, 45), "rename")
    late: list[bool] = []

    def rename_over() -> None:
        scene.rival.rename()
        over = scene.rival.over
        late.append(over is not None and over.commit_user == "other" and second.settled(over.id) < 1 << 30)

    (first if data.draw(st.booleans(), "in the first") else second).add(rename, rename_over)
    first.add(data.draw(st.integers(1, 45), "other"), other)
    results.append(scene.through(first).commit(work, identifier=7))
    assume(late != [True])  # after the settle time
    names = scene.table.live()
    assert names.count("c") == 1
    assert names.count("d") == len(results) - 1
    scene.check_whole()
    if scene.rival.planned is not None and scene.rival.renamed and "rival" not in names:
        assert any(
            "let the writer of that commit repeat it" in note for result in results for note in result.notes
        )


def test_a_snapshot_that_was_built_on_ours_keeps_the_change() -> None:
    """Ours is replaced when another commit has been built on it: the files are live, and not added again."""
    scene, steps = Scene(), Steps()
    scene.rival.look()

    def others() -> None:
        scene.table.commit(
            [commit_message(scene.table.file("d"))],
            identifier=1,
            commit_user="other",
            options=OFF,
        )
        scene.rival.rename()

    steps.on("sleep", "", others)
    result = scene.through(steps).commit(append(scene.table), identifier=7)
    assert scene.table.live() == ["a", "b", "c", "d"]
    assert result.snapshot_ids == (5,)
    marker = scene.table.snapshots.load(5)
    assert (marker.commit_user, marker.commit_identifier, marker.delta_record_count) == ("u", 7, 0)
    again = scene.table.commit([commit_message(scene.table.file("c2"))], identifier=7)
    assert (again.duplicate, scene.table.live()) == (True, ["a", "b", "c", "d"])
    assert any("snapshot 4 was built on snapshot 3 of this commit" in note for note in result.notes)
    scene.check_whole()


def test_a_compaction_of_our_lost_snapshot_is_not_taken_for_a_loss() -> None:
    """Our file is gone from the live ones because somebody compacted it, not because it was lost."""
    scene, steps = Scene(), Steps()
    scene.rival.look()

    def others() -> None:
        table = scene.table
        before = tuple(table.file(name) for name in "abc")
        joined = table.file("joined", level=5, rows=30)
        table.commit([commit_message(table.file("d"))], identifier=1, commit_user="other", options=OFF)
        message = commit_message(compact_before=before, compact_after=(joined,))
        table.commit([message], identifier=2, commit_user="other", options=OFF)
        scene.rival.rename()

    steps.on("sleep", "", others)
    scene.through(steps).commit(append(scene.table), identifier=7)
    assert scene.table.live() == ["d", "joined@5"]
    scene.check_whole()


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


@pytest.mark.parametrize("faster", [False, True])
def test_a_changelog_of_a_lost_snapshot_is_committed_again(faster: bool) -> None:
    """The data is in the table through the snapshot that was built on ours, but only ours named the changelog."""
    scene, steps, work = changelog_scene()
    storage: FileIO = SteppingFileIO(scene.table.storage, steps)
    if faster:
        message = commit_message(scene.table.file("e"))
        storage = Meddling(
            storage,
            "publish",
            "snapshot-5",
            lambda: scene.table.commit([message], identifier=2, commit_user="other", options=OFF),
        )
    table = CommitTable(
        SCHEMA, storage=storage, path=scene.table.paths.table_path, clock=SteppingClock(steps)
    )
    table.commit(work, identifier=7)
    assert scene.table.live() == ["a", "b", "c", "d", *(["e"] if faster else [])]
    latest = scene.table.snapshots.latest()
    assert latest is not None
    counts = (latest.id, latest.delta_record_count, latest.changelog_record_count)
    assert counts == (6 if faster else 5, 0, 10)
    scene.check_whole()


def test_a_changelog_that_cannot_be_committed_again_makes_nobody_delete_the_data() -> None:
    """The data is live: any error but an uncertain commit would make the caller remove its files."""
    scene, steps, work = changelog_scene()

    def full() -> None:
        raise UnavailableError("the disk is full")

    storage = Meddling(SteppingFileIO(scene.table.storage, steps), "publish", "snapshot-5", full)
    table = CommitTable(
        SCHEMA, storage=storage, path=scene.table.paths.table_path, clock=SteppingClock(steps)
    )
    with pytest.raises(CommitUncertainError, match="the disk is full"):
        table.commit(work, identifier=7)
    scene.check_whole()


def test_a_base_that_is_replaced_while_planning_is_planned_on_anew() -> None:
    """Never on a snapshot that has vanished: the file of the base is read again right before the publication."""
    scene, steps = Scene(), Steps()
    scene.rival.look()
    scene.table.commit(
        [commit_message(scene.table.file("d"))], identifier=9, options=OFF
    )  # snapshot 3, lost soon
    steps.on("write_new", "manifest-list", scene.rival.rename)
    scene.through(steps).commit(append(scene.table), identifier=7, options=OFF)
    assert scene.table.live() == ["a", "b", "c", "rival"]
    check_lineage(scene.table)


def test_a_conflict_after_a_replacement_deletes_nothing() -> None:
    """Somebody may be building on the snapshot that is gone: its manifests and files stay."""
    scene, steps = Scene(), Steps()

    class Compactor(RenamingWriter):
        def rename(self) -> None:
            super().rename()
            self._table.commit([], identifier=3, commit_user="rival", overwrite=Overwrite.table())

    rival = Compactor(scene.table)
    rival.look()
    work = compact(scene.table)
    steps.on("sleep", "", rival.rename)
    with pytest.raises(CommitUncertainError, match="could not be repeated") as caught:
        scene.through(steps).commit(work, identifier=7)
    assert "delete nothing" in str(caught.value)
    lost = rival.over
    assert lost is not None
    assert lost.commit_user == "u"
    manifests = scene.table.manifests
    manifests.read(manifests.data_manifests(lost))  # all of them are there


@pytest.mark.parametrize(
    "mode", [FaultMode.ERROR, FaultMode.DEAD, FaultMode.INTERRUPTED, FaultMode.ERROR_AFTER_EFFECT]
)
def test_faults_while_a_replaced_commit_is_made_again(mode: FaultMode) -> None:
    """Storage fails at operation 1, 2, 3, … of a commit whose first snapshot is replaced; the same commit, made once
    more, is in the table exactly once.
    """
    for number in itertools.count(1):
        scene, steps = Scene(), Steps()
        scene.rival.look()
        work = append(scene.table)
        steps.on("sleep", "", scene.rival.rename)
        faulty = FaultyFileIO(scene.table.storage, number, mode)
        table = CommitTable(
            SCHEMA, storage=faulty, path=scene.table.paths.table_path, clock=SteppingClock(steps)
        )
        try:
            table.commit(work, identifier=7)
        except (LakeError, KeyboardInterrupt):
            scene.check_whole()
            scene.table.commit(work, identifier=7)
        if not scene.rival.renamed:
            assert number < 25  # the fault came before the snapshot was there
            scene.rival = RenamingWriter(scene.table)
            scene.rival.rename()
        assert scene.table.live() == ["a", "b", "c", "rival"], number
        scene.check_whole()
        if not faulty.fired:
            break
    assert number > 40


def test_the_search_for_duplicates_looks_again_where_a_known_snapshot_was_replaced() -> None:
    scene = Scene()
    search = DuplicateSearch(scene.table.snapshots, "u", 7)
    assert search.find(scene.table.snapshots.latest(), CommitKind.APPEND) is None
    scene.table.storage.delete(
        scene.table.paths.snapshot(2)
    )  # a rollback, and then our commit by another process
    scene.table.commit(append(scene.table), identifier=7)
    found = search.find(scene.table.snapshots.latest(), CommitKind.APPEND)
    assert found is not None
    assert found.id == 2


def test_the_live_view_does_not_go_on_from_a_snapshot_that_was_replaced() -> None:
    scene = Scene()
    table = scene.table
    wanted = frozenset({commit_message().partition})

    def names(view: LiveView) -> set[str]:
        return {entry.file.file_name for entry in view.at(table.snapshots.latest()).rows()}

    stale, fresh = (LiveView(table.stores, SCHEMA.partition_type, wanted) for _ in "ab")
    scene.rival.look()
    table.commit(append(table), identifier=7, options=OFF)
    assert names(stale) == names(fresh) == {"a", "b", "c"}
    scene.rival.rename()
    assert names(fresh) == {"a", "b", "rival"}
    table.commit([commit_message(table.file("d"))], identifier=8, options=OFF)
    assert names(fresh) == {"a", "b", "d", "rival"}
    assert names(stale) == {"a", "b", "d", "rival"}  # it never saw the snapshot that replaced the one it has


def test_another_run_of_the_same_name_after_a_replacement_is_no_reason_to_delete() -> None:
    """A duplicate makes callers remove their files, and somebody may be building on the snapshot that names them."""
    scene, steps = Scene(), Steps()
    scene.rival.look()

    def others() -> None:
        scene.rival.rename()
        scene.table.commit([commit_message(scene.table.file("twin"))], identifier=7, options=OFF)

    steps.on("sleep", "", others)
    with pytest.raises(
        CommitUncertainError, match="another run committed it under the same name as snapshot 4"
    ):
        scene.through(steps).commit(append(scene.table), identifier=7)
    assert scene.table.live() == ["a", "b", "rival", "twin"]


def test_a_base_that_is_replaced_after_the_last_look_is_reported() -> None:
    """Nothing can be done about it any more, but somebody has to know."""
    scene, steps = Scene(), Steps()
    scene.rival.look()
    scene.table.commit([commit_message(scene.table.file("d"))], identifier=9, options=OFF)
    steps.on("publish", "snapshot-4", scene.rival.rename)
    result = scene.through(steps).commit(append(scene.table), identifier=7)
    assert scene.table.live() == ["a", "b", "c", "d"]
    assert result.notes == (
        "snapshot 3, on which snapshot 4 is built, was replaced afterwards by commit 1 of rival: the table "
        "lacks the changes of that commit; let its writer repeat it",
    )


@pytest.mark.parametrize("gone", ["removed", "not following"])
def test_history_that_does_not_tell_whether_the_change_is_in_it(gone: str) -> None:
    """Somebody built on our snapshot, or not: what would tell is not there any more. Nothing is made twice."""
    scene, steps = Scene(), Steps()
    scene.rival.look()
    table = scene.table

    def others() -> None:
        table.commit([commit_message(table.file("d"))], identifier=1, commit_user="other", options=OFF)
        if gone == "removed":  # ours is compacted by the next snapshots, and the first of them expires
            before = tuple(table.file(name) for name in "abcd")
            message = commit_message(
                compact_before=before, compact_after=(table.file("m", level=5, rows=40),)
            )
            table.commit([message], identifier=2, commit_user="other", options=OFF)
            table.commit([commit_message(table.file("e"))], identifier=3, commit_user="other", options=OFF)
            for snapshot_id in (4, 5):
                table.storage.delete(table.paths.snapshot(snapshot_id))
        scene.rival.rename()
        if gone == "removed":
            for snapshot_id in (3, 4, 5):
                table.storage.delete(table.paths.snapshot(snapshot_id))
            table.storage.overwrite(table.paths.latest_hint, b"6")
        if gone == "not following":  # snapshot 4 holds the change; 5 was built on another 4
            lost = table.snapshots.load(4)
            table.storage.delete(table.paths.snapshot(4))
            table.commit([commit_message(table.file("x"))], identifier=4, commit_user="other", options=OFF)
            table.commit([commit_message(table.file("y"))], identifier=5, commit_user="other", options=OFF)
            table.storage.overwrite(
                table.paths.snapshot(4), replace(lost, total_record_count=7).to_json().encode()
            )

    steps.on("sleep", "", others)
    with pytest.raises(
        CommitUncertainError, match=r"removed by another process|does not follow from snapshot 4"
    ):
        scene.through(steps).commit(append(table), identifier=7)


def test_a_commit_that_keeps_losing_does_not_wait_for_its_base_for_ever() -> None:
    """On a table that others commit to all the time, a commit that waits never wins."""
    scene, steps = Scene(), Steps()
    table = scene.through(steps)
    names = iter("uvwxyz")
    clock = table.clock
    assert isinstance(clock, SteppingClock)

    def faster() -> None:
        name = next(names)
        scene.table.commit(
            [commit_message(scene.table.file(name))], identifier=1, commit_user=name, options=OFF
        )
        status = scene.table.storage.stat(scene.table.paths.snapshot(3))
        assert status is not None
        clock.time_ms = status.mtime_ms
        if len(scene.table.snapshots.list_ids()) < 6:
            steps.on("publish", "snapshot-", faster)

    steps.on("publish", "snapshot-", faster)
    clock.time_ms = scene.table.storage.stat(table.paths.snapshot(2)).mtime_ms  # type: ignore[union-attr]
    table.commit(append(scene.table), identifier=7)
    waits = [seconds for seconds in clock.slept if seconds in (0.2, 0.05, 0.012, 0.003)]
    assert waits == [0.2, 0.05, 0.012, 0.003, 0.2]


def test_a_schema_that_was_replaced_is_not_taken_for_ours() -> None:
    scene, steps = Scene(), Steps()
    table = scene.through(steps)
    ours, theirs = replace(SCHEMA, id=1, comment="ours"), replace(SCHEMA, id=1, comment="theirs")

    def rename() -> None:
        table.storage.inner.overwrite(table.paths.schema(1), theirs.to_json().encode())

    steps.on("sleep", "", rename)
    assert not table.schemas.publish(ours)
    assert scene.table.schemas.load(1).comment == "theirs"


def test_a_young_base_settles_before_it_is_built_on() -> None:
    """One wait for a base that was published just now, one after the commit; an old base costs only the latter."""
    clock = FakeClock()
    storage = MemoryFileIO(uuid.uuid4().hex)
    table = CommitTable(SCHEMA, storage=storage, clock=clock).created()
    clock.slept.clear()
    table.commit([commit_message(table.file("a"))], identifier=1)
    assert clock.slept == [0.2]
    clock.time_ms = table.storage.stat(table.paths.snapshot(1)).mtime_ms + 100  # type: ignore[union-attr]
    table.commit([commit_message(table.file("b"))], identifier=2)
    assert clock.slept == [0.2, 0.2, 0.2]
    clock.time_ms = table.storage.stat(table.paths.snapshot(2)).mtime_ms + 60_000  # type: ignore[union-attr]
    table.commit([commit_message(table.file("c"))], identifier=3)
    assert clock.slept == [0.2] * 4


def test_entries_of_the_delta_are_written_once() -> None:
    """The second commit names the same data files: nothing is rewritten."""
    scene, steps = Scene(), Steps()
    scene.rival.look()
    steps.on("sleep", "", scene.rival.rename)
    result = scene.through(steps).commit(append(scene.table), identifier=7)
    snapshot = scene.table.snapshots.load(result.snapshot_ids[-1])
    entries = scene.table.manifests.read(scene.table.manifests.read_list(snapshot.delta_manifest_list)).rows()
    assert [(entry.kind, entry.file.file_name) for entry in entries] == [(EntryKind.ADD, "c")]


def test_a_file_that_is_live_already_is_never_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the search for an heir ever miss one: after a replacement, plain appends are compared with what is live, too."""
    monkeypatch.setattr("lakecore.commit.attempt.DescendantSearch.find", lambda self, latest: None)
    scene, steps, work = changelog_scene()
    with pytest.raises(CommitUncertainError, match="the file is in the table already"):
        scene.through(steps).commit(work, identifier=7)
    assert scene.table.live() == ["a", "b", "c", "d"]


def test_manifests_of_a_replaced_base_that_are_gone_are_no_damage() -> None:
    """Whoever lost its snapshot may remove its manifests; a commit that was planning on it plans anew."""
    scene, steps = Scene(), Steps()
    scene.rival.look()
    scene.table.commit([commit_message(scene.table.file("d"))], identifier=9, options=OFF)
    lost = scene.table.snapshots.load(3)

    def rename() -> None:
        scene.rival.rename()
        scene.table.storage.delete(scene.table.paths.manifest(lost.delta_manifest_list))

    steps.on("read", lost.delta_manifest_list, rename)
    scene.through(steps).commit(append(scene.table), identifier=7)
    assert scene.table.live() == ["a", "b", "c", "rival"]


def test_the_live_view_goes_on_where_the_snapshot_that_it_has_expired() -> None:
    scene = Scene()
    table = scene.table
    view = LiveView(table.stores, SCHEMA.partition_type, frozenset({commit_message().partition}))
    view.at(table.snapshots.latest())
    known = table.snapshots.load(2)
    table.commit(append(table), identifier=7, options=OFF)
    table.storage.delete(table.paths.snapshot(2))
    table.storage.delete(table.paths.manifest(known.delta_manifest_list))
    names = {entry.file.file_name for entry in view.at(table.snapshots.latest()).rows()}
    assert names == {"a", "b", "c"}


def test_a_removal_that_was_lost_is_made_again() -> None:
    """It adds no file that would tell: the files that it removed are there again, because its snapshot was replaced."""
    scene, steps = Scene(), Steps()
    scene.rival.look()

    def others() -> None:
        scene.rival.rename()
        message = commit_message(scene.table.file("d"))
        scene.table.commit([message], identifier=1, commit_user="other", options=OFF)

    steps.on("sleep", "", others)
    scene.through(steps).commit([], identifier=7, overwrite=Overwrite.table())
    assert scene.table.live() == []


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (("old",), ("new",), True),
        (("old",), ("new", "other"), True),
        (("old",), ("old",), False),
        (("old",), ("old", "new"), False),
        (("old",), ("other",), None),
        ((), ("other",), None),
    ],
)
def test_an_heir_of_a_change_of_index_files_alone(
    before: tuple[str, ...], after: tuple[str, ...], found: bool | None
) -> None:
    """`found` None: neither what it adds nor what it removes is there, so that the snapshot does not tell; with a
    snapshot missing in between nobody can.
    """
    table = Scene().table

    def files(names: tuple[str, ...]) -> tuple[IndexFile, ...]:
        partition = commit_message().partition
        common = {
            "partition": partition,
            "bucket": 0,
            "index_type": HASH_INDEX,
            "file_size": 8,
            "row_count": 2,
        }
        return tuple(IndexFile(file_name=name, **common) for name in names)

    change = Change(
        kind=CommitKind.COMPACT,
        entries=ManifestEntries.empty(),
        changelog=ManifestEntries.empty(),
        checked=True,
        index=IndexChange(files(("new",)), files(before)),
    )
    latest = table.snapshots.load(2)
    empty = table.manifests.write_list(())
    gone = next_metadata_only(latest, empty, empty, CommitKind.COMPACT, 0)
    later = next_metadata_only(gone, empty, empty, CommitKind.APPEND, 0)
    later = replace(later, index_manifest=table.manifests.write_index(files(after)))
    search = DescendantSearch(table.stores, gone, change)
    table.snapshots.publish(gone)
    table.snapshots.publish(later)
    assert search.find(later) == (later if found else None)
    table.storage.delete(table.paths.snapshot(4))
    last = replace(later, id=5)
    table.snapshots.publish(last)
    if found is None:
        with pytest.raises(CommitUncertainError, match="was removed by another process"):
            search.find(last)
    else:
        assert search.find(last) == (last if found else None)
