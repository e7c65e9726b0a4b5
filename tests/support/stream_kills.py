"""A streaming query that copies a table is killed with SIGKILL: what its test and its soak share."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.table import Table

__all__ = ["TABLES", "Kills"]

PATIENCE = 600.0
"""Spark begins slowly on a machine that does much else."""
A_ROUND = 6
TABLES = {
    "plain": {"columns": ["k INT", "v BIGINT"]},
    "shuffled": {
        "columns": ["k INT", "v BIGINT"],
        "primaryKeys": ["k"],
        "options": {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    },
}


def processes(session_id: int) -> list[tuple[int, str]]:
    """Processes of a session: the driver, its JVM, and the Python daemon and workers, which have groups of their
    own.
    """
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(fields[3]) == session_id:
                found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
    return found


def kill_all(job: subprocess.Popen[bytes]) -> None:
    for pid, _ in processes(job.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    job.wait()


def kill_worker(job: subprocess.Popen[bytes], dice: random.Random) -> int:
    """Kill a Python worker; returns how many were killed."""
    workers = [
        pid for pid, line in processes(job.pid) if "pyspark.daemon" in line or "pyspark/daemon" in line
    ]
    if not workers:
        return 0
    with suppress(ProcessLookupError):
        os.kill(dice.choice(workers), signal.SIGKILL)
    return 1


def start(warehouse: Path, checkpoint: Path, kind: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.stream_job", str(warehouse), str(checkpoint), kind],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def add(source: Table, number: int) -> None:
    rows = [{"k": k % 7, "v": 1_000 * number + k} for k in range(20)]
    source.append(pa.Table.from_pylist(rows))


def latest(table: Table) -> int:
    found = table.latest_snapshot()
    return 0 if found is None else found.id


def wait_for_commit(job: subprocess.Popen[bytes], copy: Table, source: Table, added: int) -> int:
    """Add rows until the query has committed something; returns how many commits the source has."""
    before, most, deadline = latest(copy), added + A_ROUND, time.monotonic() + PATIENCE
    while latest(copy) == before and job.poll() is None:
        assert time.monotonic() < deadline, "the query committed nothing"
        if added < most:  # a query takes two of them in a micro-batch, and must catch up in the end
            add(source, added)
            added += 1
        time.sleep(0.3)
    return added


def contents(table: Table, kind: str) -> object:
    rows = table.scan().to_arrow().to_pylist()
    if kind == "plain":
        return sorted((row["k"], row["v"]) for row in rows)
    sums: dict[int, int] = {}
    for row in rows:
        sums[row["k"]] = sums.get(row["k"], 0) + row["v"]
    return sums


@dataclass
class Kills:
    """It kills a query of one kind again and again, and lets it end with all rows."""

    catalog: FilesystemCatalog
    checkpoint: Path
    kind: str
    dice: random.Random
    commits: int = 0
    """So many commits were added to the source."""
    driver_kills: int = 0
    worker_kills: int = 0

    def __post_init__(self) -> None:
        self.source = self.catalog.create_table("d.source", TABLES["plain"])
        self.copy = self.catalog.create_table("d.copy", TABLES[self.kind])

    def kill_once(self, *, worker: bool) -> None:
        """Start the query, let it commit, and kill all its processes, some time after a worker of it."""
        job = start(Path(self.catalog.warehouse), self.checkpoint, self.kind)
        try:
            self.commits = wait_for_commit(job, self.copy, self.source, self.commits)
            if worker:
                self.worker_kills += kill_worker(job, self.dice)
                add(self.source, self.commits)
                self.commits += 1
            time.sleep(self.dice.random() * 2)
        finally:
            kill_all(job)
            self.driver_kills += 1
        if self.kind == "plain":
            copied, there = contents(self.copy, "plain"), contents(self.source, "plain")
            assert isinstance(copied, list)
            assert isinstance(there, list)
            assert len(copied) == len(set(copied)), "rows are doubled"
            assert set(copied) <= set(there)

    def finish(self, on_look: Callable[[], None] = lambda: None) -> None:
        """Start the query and wait until the copy has all rows; then it gets no more."""
        job = start(Path(self.catalog.warehouse), self.checkpoint, self.kind)
        try:
            deadline = time.monotonic() + PATIENCE
            while contents(self.copy, self.kind) != contents(self.source, self.kind):
                assert time.monotonic() < deadline, "rows are missing or doubled"
                assert job.poll() is None
                on_look()
                time.sleep(0.5)
            time.sleep(2)
            assert contents(self.copy, self.kind) == contents(self.source, self.kind)
        finally:
            kill_all(job)
