"""What a replay says of a policy is held against what that policy did: by lakecore's jobs, and by Java Paimon's writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakecore.jobs import what_if
from lakecore.jobs.what_if import Job
from tests.bench.what_if import LIMITS, by_java, by_lakecore, compared
from tests.support.oracle import Oracle

COMMITS = 15


def check_compactions(found: dict[str, Any]) -> None:
    """Check that there are as many compactions, that sizes are within a tenth, and that readers never meet more runs."""
    ratio = found["ratio"]
    assert ratio["compactions"] == ratio["files"] == 1.0
    for name in ("read_bytes", "written_bytes", "write_amplification"):
        assert ratio[name] == pytest.approx(1, abs=0.1), name
    assert found["happened"]["most_runs"] - found["replayed"]["most_runs"] in (0, 1)


def test_lakecore_compacts_and_expires_as_the_replay_says(tmp_path: Path) -> None:
    catalog, _ = by_lakecore(str(tmp_path / "all"), COMMITS)
    report = what_if.run(Job(table="d.k", chores=("compact",)), catalog, clock=catalog.clock)
    found = compared(report)
    check_compactions(found)
    assert 0.7 < found["ratio"]["average_runs"] < 1.1, "an hour of the clock of the test is between commits"
    asked = what_if.run(Job(table="d.k", options=LIMITS), catalog, clock=catalog.clock).expiry[-1]
    _, removed = by_lakecore(str(tmp_path / "expired"), COMMITS, limits=LIMITS)
    assert asked.expired_snapshots == removed["snapshots"] > COMMITS
    assert asked.removed_files == removed["files"]
    assert asked.removed_bytes == pytest.approx(removed["bytes"], rel=0.005), "metadata differs by some bytes"


@pytest.mark.slow
def test_the_writer_of_java_compacts_as_the_replay_says(tmp_path: Path, oracle: Oracle) -> None:
    catalog = by_java(tmp_path, COMMITS, oracle)
    check_compactions(compared(what_if.run(Job(table="d.k", chores=("compact",)), catalog)))
