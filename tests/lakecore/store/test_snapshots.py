"""Finding snapshots with good, stale, missing and broken hints; expiry while reading."""

from __future__ import annotations

import uuid

import pytest

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore
from tests.support.builders import snapshot
from tests.support.fault_fs import FaultMode, FaultyFileIO


def store_of(*ids: int, latest: bytes | None = None, earliest: bytes | None = None) -> SnapshotStore:
    store = SnapshotStore(MemoryFileIO(uuid.uuid4().hex), TablePaths("/t"))
    for snapshot_id in ids:
        assert store.publish(snapshot(snapshot_id))
    if latest is not None:
        store.file_io.overwrite(store.paths.latest_hint, latest)
    if earliest is not None:
        store.file_io.overwrite(store.paths.earliest_hint, earliest)
    return store


@pytest.mark.parametrize("hint", [None, b"7", b"5", b"3", b"99", b"", b"x", b"-1", b" 7\n"])
def test_latest_with_any_hint(hint: bytes | None) -> None:
    found = store_of(3, 4, 5, 6, 7, latest=hint).latest()
    assert found is not None
    assert found.id == 7


@pytest.mark.parametrize("hint", [None, b"3", b"1", b"x", b"99"])
def test_earliest_with_any_hint(hint: bytes | None) -> None:
    found = store_of(3, 4, 5, earliest=hint).earliest()
    assert found is not None
    assert found.id == 3


def test_a_table_without_snapshots() -> None:
    store = store_of(latest=b"4", earliest=b"4")
    assert store.latest() is None
    assert store.latest_id() is None
    assert store.earliest() is None
    assert store.list_ids() == ()
    with pytest.raises(NotFoundError, match="no snapshots"):
        store.load(4)


def test_other_files_in_the_directory_are_ignored() -> None:
    store = store_of(2, 10)
    for name in (".snapshot-11.x.tmp", "snapshot-12.tmp", "snapshot-", "LATEST"):
        store.file_io.overwrite(f"/t/snapshot/{name}", b"")
    assert store.list_ids() == (2, 10)


def test_an_id_is_published_once() -> None:
    store = store_of(1)
    assert not store.publish(Snapshot.from_json(snapshot(1).to_json().replace('"u"', '"v"'), "x"))
    assert store.load(1).commit_user == "u"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (1, "was expired; the available snapshots are 3-5"),
        (9, "does not exist; the available snapshots are 3-5"),
    ],
)
def test_missing_snapshots_name_the_range(wanted: int, why: str) -> None:
    with pytest.raises(NotFoundError, match=f"snapshot {wanted} of /t {why}"):
        store_of(3, 4, 5).load(wanted)


@pytest.mark.parametrize("data", [b"", b"{", b'{"id": 3}', b"\xff\xfe", b"null"])
def test_a_broken_snapshot_is_named(data: bytes) -> None:
    store = store_of(1, 2)
    store.file_io.overwrite("/t/snapshot/snapshot-3", data)
    with pytest.raises(CorruptDataError, match="/t/snapshot/snapshot-3"):
        store.load(3)
    with pytest.raises(CorruptDataError, match="/t/snapshot/snapshot-3"):
        store.latest()


def test_a_snapshot_under_a_wrong_name() -> None:
    store = store_of(1)
    store.file_io.overwrite("/t/snapshot/snapshot-2", snapshot(1).to_json().encode())
    with pytest.raises(CorruptDataError, match="contains the id 1 of another snapshot"):
        store.load(2)


def test_a_file_lost_by_expiry_and_a_file_lost() -> None:
    store = store_of(3, 4, 5)
    dropped = store.missing_file(4, NotFoundError("no /t/bucket-0/f"))
    assert isinstance(dropped, NotFoundError)
    assert "the table was renamed or dropped" in str(dropped)
    store.file_io.write_new(store.paths.schema(0), b"{}")
    expired = store.missing_file(2, NotFoundError("no /t/bucket-0/f"))
    assert isinstance(expired, NotFoundError)
    assert "expired while it was being read" in str(expired)
    assert "3-5" in str(expired)
    going = store.missing_file(4, NotFoundError("no /t/bucket-0/f"))
    assert isinstance(going, NotFoundError)
    assert "is being expired, or it is damaged; read a newer snapshot" in str(going)
    lost = store.missing_file(5, NotFoundError("no /t/bucket-0/f"))
    assert isinstance(lost, CorruptDataError)
    assert "/t/bucket-0/f" in str(lost)


@pytest.mark.parametrize("newest", [5, None])
@pytest.mark.parametrize(
    ("hint", "then"),
    [(b"1", b"5"), (b"3", b"5"), (b"5", b"5"), (b"9", b"9"), (b"x", b"x"), (None, None)],
)
def test_a_hint_that_fell_behind_catches_up(
    hint: bytes | None, then: bytes | None, newest: int | None
) -> None:
    store = store_of(3, 4, 5, latest=hint)
    store.catch_up_latest(newest)
    broken = SnapshotStore(FaultyFileIO(store.file_io, 1, FaultMode.DEAD), store.paths)
    broken.catch_up_latest(newest)
    path = store.paths.latest_hint
    assert (None if store.file_io.stat(path) is None else store.file_io.read(path)) == then


def test_a_hint_catches_up_with_no_snapshot_that_is_gone() -> None:
    store = store_of(3, latest=b"3")
    store.catch_up_latest(5)
    assert store.file_io.read(store.paths.latest_hint) == b"3"


@pytest.mark.parametrize(("hint", "then"), [(b"9", b"5"), (b"5", b"5"), (b"4", b"4"), (None, None)])
def test_a_hint_of_a_snapshot_that_is_gone_is_corrected(hint: bytes | None, then: bytes | None) -> None:
    store = store_of(4, 5, latest=hint)
    store.correct_latest()
    broken = SnapshotStore(FaultyFileIO(store.file_io, 1, FaultMode.DEAD), store.paths)
    broken.correct_latest()
    path = store.paths.latest_hint
    assert (None if store.file_io.stat(path) is None else store.file_io.read(path)) == then


def test_hints_are_written_and_their_failure_is_no_failure() -> None:
    store = store_of(4, 5)
    store.write_hints(5)
    assert store.file_io.read("/t/snapshot/LATEST") == b"5"
    assert store.file_io.read("/t/snapshot/EARLIEST") == b"4"
    store.write_hints(6)
    assert store.file_io.read("/t/snapshot/EARLIEST") == b"4"
    broken = SnapshotStore(FaultyFileIO(store.file_io, 1, FaultMode.DEAD), store.paths)
    broken.write_hints(7)
    assert store.file_io.read("/t/snapshot/LATEST") == b"6"


def test_a_branch_has_snapshots_of_its_own() -> None:
    main = store_of(1)
    branch = SnapshotStore(main.file_io, main.paths.with_branch("b"))
    assert branch.latest() is None
    branch.publish(snapshot(1))
    assert main.file_io.stat("/t/branch/branch-b/snapshot/snapshot-1") is not None
