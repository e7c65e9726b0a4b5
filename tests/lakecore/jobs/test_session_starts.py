"""How long Spark sessions took to start, and what forecasts make of it."""

from __future__ import annotations

import pytest

from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.engines.engine_choice import SPARK_STARTS_S
from lakecore.jobs.engines.session_starts import SessionStarts

MASTER = "spark://host:7077"


@pytest.fixture
def starts() -> SessionStarts:
    storage = MemoryFileIO("starts")
    storage.clear()
    return SessionStarts(storage, "memory://starts/wh")


def test_a_master_has_the_median_of_its_last_starts(starts: SessionStarts) -> None:
    assert starts.seconds(MASTER) == SPARK_STARTS_S, "nothing is known yet"
    for seconds in (20.0, 22.0, 500.0):
        starts.add(MASTER, seconds)
    assert starts.seconds(MASTER) == 22.0, "one slow start changes little"
    assert starts.seconds("local[*]") == SPARK_STARTS_S, "each master has its own"
    for _ in range(9):
        starts.add(MASTER, 3.0)
    assert starts.seconds(MASTER) == 3.0
    assert starts._read(MASTER) == [3.0] * 9, "only the last ones are kept"


@pytest.mark.parametrize("seconds", [0.0, -5.0, 1e9])
def test_times_are_bounded(starts: SessionStarts, seconds: float) -> None:
    starts.add(MASTER, seconds)
    assert 0.5 <= starts.seconds(MASTER) <= 600


@pytest.mark.parametrize("content", [b"[", b"{}", b'["a", null, true, -1, 1e400, 1e9]', b"\xff", b"7"])
def test_a_damaged_file_counts_as_nothing(starts: SessionStarts, content: bytes) -> None:
    starts.file_io.overwrite(starts._path(MASTER), content)
    assert starts.seconds(MASTER) == SPARK_STARTS_S
    starts.add(MASTER, 9.0)
    assert starts.seconds(MASTER) == 9.0
