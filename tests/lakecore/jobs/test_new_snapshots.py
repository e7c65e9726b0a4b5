"""What is new data, and where a consumer stands."""

from __future__ import annotations

import pytest

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.new_snapshots import Position, PositionStore, SnapshotRange, after, within
from lakecore.metadata.snapshot import CommitKind, Snapshot

KINDS = {1: "APPEND", 2: "COMPACT", 3: "APPEND", 4: "OVERWRITE", 5: "COMPACT", 6: "ANALYZE"}


def _load(snapshot_id: int) -> Snapshot:
    if snapshot_id not in KINDS:
        raise NotFoundError(f"snapshot {snapshot_id}")
    return Snapshot(
        id=snapshot_id,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list="d",
        commit_user="u",
        commit_identifier=snapshot_id,
        commit_kind=CommitKind(KINDS[snapshot_id]),
        time_millis=snapshot_id * 100,
    )


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (0, SnapshotRange(1, 4, 3)),
        (1, SnapshotRange(3, 4, 2)),
        (3, SnapshotRange(4, 4, 1)),
        (4, None),
        (6, None),
    ],
)
def test_compactions_and_statistics_are_not_new_data(position: int, expected: SnapshotRange | None) -> None:
    assert after(_load, KINDS, position) == expected


def test_a_snapshot_expired_meanwhile_is_passed_over() -> None:
    assert after(_load, [*KINDS, 7, 8], 3) == SnapshotRange(4, 4, 1)


def test_an_interval_holds_its_start_and_not_its_end() -> None:
    assert within(_load, KINDS, 300, 400) == SnapshotRange(3, 3, 1)
    assert within(_load, KINDS, 300, 401) == SnapshotRange(3, 4, 2)
    assert within(_load, KINDS, 500, 900) is None


def test_a_repeated_run_starts_where_its_first_try_did() -> None:
    store = PositionStore(MemoryFileIO("positions"), "memory://wh")
    assert store.start("dag.task", "db.t", "run1") == 0
    store.save("dag.task", "db.t", Position(run="run1", after=0, last=4))
    assert store.start("dag.task", "db.t", "run1") == 0
    assert store.start("dag.task", "db.t", "run2") == 4
    assert store.start("dag.other", "db.t", "run1") == 0


def test_a_damaged_position_says_how_to_start_over() -> None:
    file_io = MemoryFileIO("damaged-position")
    store = PositionStore(file_io, "memory://wh")
    store.save("d/../x", "db.t", Position(run="r", after=1, last=2))
    [found] = file_io.list("memory://wh/.lakecore/positions")
    file_io.overwrite(found.path, b"{")
    with pytest.raises(CorruptDataError, match="delete the file to start over"):
        store.load("d/../x", "db.t")
