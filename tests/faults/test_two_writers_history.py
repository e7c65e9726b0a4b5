"""Two writers: what a commit finds in the history of a table whose snapshots were replaced."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from lakecore.commit.descendant_search import DescendantSearch
from lakecore.commit.duplicates import DuplicateSearch
from lakecore.commit.index_changes import IndexChange
from lakecore.commit.plan import Change
from lakecore.commit.request import Overwrite
from lakecore.commit.view import LiveView
from lakecore.errors import CommitUncertainError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind
from tests.faults.two_writers import OFF, SCHEMA, Scene, append, changelog_scene
from tests.support.builders import commit_message
from tests.support.commit_table import CommitTable
from tests.support.fake_clock import FakeClock
from tests.support.renaming_writer import SteppingClock, Steps


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
