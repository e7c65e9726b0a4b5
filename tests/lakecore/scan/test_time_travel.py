"""Which snapshot a read sees."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.fs.memory import MemoryFileIO
from lakecore.scan.time_travel import LATEST, TimeTravel, snapshot_as_of
from lakecore.store.paths import TablePaths
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.tags import TagStore
from tests.support.builders import snapshot
from tests.support.fake_clock import FakeClock

PATHS = TablePaths("memory://travel/t")


@pytest.fixture
def stores() -> tuple[SnapshotStore, TagStore]:
    """Snapshots 3, 4, 6 (5 was removed by hand) at 30, 40, 60 ms, and tag `old` of the expired snapshot 1."""
    file_io = MemoryFileIO("travel")
    file_io.clear()
    snapshots = SnapshotStore(file_io, PATHS, FakeClock())
    for number in (3, 4, 6):
        assert snapshots.publish(snapshot(number, time_millis=10 * number))
    file_io.overwrite(PATHS.tag("old"), snapshot(1, time_millis=10).to_json().encode())
    return snapshots, TagStore(file_io, PATHS)


@pytest.mark.parametrize(
    ("travel", "wanted"),
    [
        (LATEST, 6),
        (TimeTravel(snapshot=4), 4),
        (TimeTravel(tag="old"), 1),
        (TimeTravel(timestamp_ms=30), 3),
        (TimeTravel(timestamp_ms=59), 4),
        (TimeTravel(timestamp_ms=60), 6),
        (TimeTravel(timestamp_ms=10**15), 6),
    ],
)
def test_travel(stores: tuple[SnapshotStore, TagStore], travel: TimeTravel, wanted: int) -> None:
    found = snapshot_as_of(travel, *stores)
    assert found is not None
    assert found.id == wanted


@pytest.mark.parametrize(
    ("travel", "message"),
    [
        (TimeTravel(snapshot=2), r"snapshot 2 .*expired; the available snapshots are 3-6"),
        (TimeTravel(snapshot=9), r"snapshot 9 .*the available snapshots are 3-6"),
        (TimeTravel(tag="new"), r"tag 'new' .*available tags: old"),
        (TimeTravel(timestamp_ms=29), r"at or before 29 ms; the earliest is 3 at 30 ms"),
    ],
)
def test_what_is_not_there(stores: tuple[SnapshotStore, TagStore], travel: TimeTravel, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        snapshot_as_of(travel, *stores)


def test_an_empty_table() -> None:
    file_io = MemoryFileIO("travel-empty")
    stores = SnapshotStore(file_io, PATHS, FakeClock()), TagStore(file_io, PATHS)
    assert snapshot_as_of(LATEST, *stores) is None
    with pytest.raises(NotFoundError, match="there are none"):
        snapshot_as_of(TimeTravel(timestamp_ms=1), *stores)


def test_one_at_a_time() -> None:
    with pytest.raises(InvalidInputError, match="snapshot and tag exclude each other"):
        TimeTravel(snapshot=1, tag="a")
    assert LATEST.is_latest
    assert not TimeTravel(timestamp_ms=0).is_latest


def marked(marks: Sequence[int | None]) -> SnapshotStore:
    """Snapshots 1, 2, … with these watermarks."""
    file_io = MemoryFileIO("marked")
    file_io.clear()
    snapshots = SnapshotStore(file_io, PATHS, FakeClock())
    for number, mark in enumerate(marks, 1):
        assert snapshots.publish(snapshot(number, time_millis=number, watermark=mark))
    return snapshots


def test_a_snapshot_without_a_watermark_between_others() -> None:
    snapshots = marked((10, 20, None, 40, 50))
    tags = TagStore(snapshots.file_io, PATHS)
    wanted = {5: 1, 10: 1, 15: 2, 20: 2, 21: 4, 40: 4, 41: 5, 50: 5}
    found = {mark: snapshot_as_of(TimeTravel(watermark=mark), snapshots, tags) for mark in wanted}
    assert {mark: one.id for mark, one in found.items() if one is not None} == wanted
    with pytest.raises(NotFoundError, match="at least 51 ms; the latest is 50"):
        snapshot_as_of(TimeTravel(watermark=51), snapshots, tags)


@pytest.mark.parametrize("seed", range(30))
def test_the_watermark_that_is_found_is_the_least_one_that_reaches(seed: int) -> None:
    dice, mark = random.Random(seed), -20
    marks: list[int | None] = []
    for _ in range(dice.randrange(1, 14)):
        mark += dice.choice((0, 0, 10))
        marks.append(dice.choice((None, mark, mark)))
    snapshots = marked(marks)
    tags = TagStore(snapshots.file_io, PATHS)
    for asked in range(-25, mark + 10, 5):
        reaching = [one for one in marks if one is not None and one >= asked]
        if not reaching:
            with pytest.raises(NotFoundError, match="watermark"):
                snapshot_as_of(TimeTravel(watermark=asked), snapshots, tags)
            continue
        found = snapshot_as_of(TimeTravel(watermark=asked), snapshots, tags)
        assert found is not None
        assert found.watermark == min(reaching), (marks, asked)
