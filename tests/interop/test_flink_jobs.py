"""Real streaming jobs of Flink while lakecore compacts, expires and removes orphans: no row is lost or doubled.

The source numbers its rows, so the table that a job ends with is known without asking any engine. A second job of Flink
follows the table into a copy. All jobs at once: `python -m tests.fuzz.flink_soak`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from tests.support.flink_jobs import JOBS, flink
from tests.support.lake import rows_of
from tests.support.night_shift import NightShift
from tests.support.oracle import findings

pytestmark = pytest.mark.slow

COUNT = 8_000
RATE = 800
NAMES = ("compacting", "lookup", "vectors", "aggregation", "append")


def test_streaming_jobs_of_flink_lose_no_row_to_maintenance(tmp_path: Path) -> None:
    jobs = [job for job in JOBS if job.name in NAMES]
    assert len(jobs) == len(NAMES)
    with flink(tmp_path) as engine:
        for job in jobs:
            job.create(engine)
        lake = load_catalog(str(tmp_path))
        with NightShift(lake, [job.table for job in jobs], seed=1) as night:
            running = {job.name: job.start(engine, COUNT, RATE) for job in jobs}
            while "RUNNING" in (states := [engine.state(writer) for writer, _ in running.values()]):
                time.sleep(0.5)
            copies = {job.name: job.wait_for_copy(engine, COUNT) for job in jobs if job.follow}
        night.remove_all_orphans()
        assert states == ["FINISHED"] * len(jobs)
        assert night.errors == []
        assert night.damage == []
        changes = {step for step in night.done if step.endswith("changed something")}
        assert {"compact: changed something", "expire: changed something"} <= changes
        for job in jobs:
            wanted = job.rows(COUNT)
            assert engine.sql(f"SELECT * FROM `{job.name}`") == wanted, job.name
            assert sorted(tuple(map(str, row)) for row in rows_of(lake.load_table(job.table))) == wanted, (
                job.name
            )
            assert findings(engine.oracle.fsck(tmp_path, job.table)) == set(), job.name
            if job.follow:
                assert copies[job.name] == wanted, job.name
