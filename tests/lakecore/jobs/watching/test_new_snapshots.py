"""Where a consumer of a table stands."""

from __future__ import annotations

import pytest

from lakecore.errors import CorruptDataError
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.watching.new_snapshots import Position, PositionStore


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
