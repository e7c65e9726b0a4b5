"""A streaming query killed with SIGKILL at chosen changes of an epoch, and started again: every row once.
`python -m tests.fuzz.epoch_kills` kills at every change.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.epoch_kills import EpochKills
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

PLACES = {
    "plain": {
        "a worker that writes": ("/data-", "alone", "python create lake/d.db/copy/bucket-0/data-"),
        "after the commit": ("checkpoint/commits/", "all", "jvm create checkpoint/commits/."),
    },
    "shuffled": {
        "before the snapshot": (
            "copy/snapshot/snapshot-",
            "all",
            "python link lake/d.db/copy/snapshot/snapshot-",
        ),
    },
}


@pytest.mark.parametrize("sink", PLACES)
def test_every_row_once(oracle: Oracle, tmp_path: Path, sink: str) -> None:
    with EpochKills(tmp_path, sink, oracle) as kills:
        for at, scope, _ in PLACES[sink].values():
            assert kills.kill_at(at, scope)
        assert [
            fired.startswith(right)
            for fired, (_, _, right) in zip(kills.places, PLACES[sink].values(), strict=True)
        ] == [True] * len(kills.places), kills.places
        assert kills.failures == [], "Spark runs the task of a worker again"
        kills.check_files()
