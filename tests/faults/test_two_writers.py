"""Lakecore next to a writer that looks whether a snapshot's name is free and then renames over it, as Java Paimon does.

No timing: the other writer's two steps are put before each operation of lakecore's commit, and each wait is one.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lakecore.commit.request import CommitResult, Overwrite
from lakecore.errors import CommitUncertainError, LakeError, UnavailableError
from lakecore.fs.file_io import FileIO
from tests.faults.two_writers import (
    KINDS,
    OFF,
    SCHEMA,
    Scene,
    append,
    changelog_scene,
    check_lineage,
    commit,
    compact,
    operations,
)
from tests.support.builders import commit_message
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.meddling_fs import Meddling
from tests.support.renaming_writer import RenamingWriter, SteppingClock, SteppingFileIO, Steps


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
