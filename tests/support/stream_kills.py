"""A streaming query that copies a table is killed with SIGKILL: what its test and its soak share. Java writes the
table that is copied, and Java reads both tables.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.table import Table
from tests.support.oracle import Oracle
from tests.support.spark_cluster import Cluster

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


def kill_one(pids: Sequence[int], dice: random.Random) -> int:
    """Kill one of the processes; returns how many were killed."""
    if not pids:
        return 0
    with suppress(ProcessLookupError):
        os.kill(dice.choice(pids), signal.SIGKILL)
        return 1
    return 0


def start(
    warehouse: Path, checkpoint: Path, kind: str, machines: Cluster | None = None
) -> subprocess.Popen[bytes]:
    master = [] if machines is None else [machines.master]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.stream_job", str(warehouse), str(checkpoint), kind, *master],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def latest(table: Table) -> int:
    found = table.latest_snapshot()
    return 0 if found is None else found.id


@dataclass
class Kills:
    """It kills a query of one kind again and again, and lets it end with all rows."""

    catalog: FilesystemCatalog
    checkpoint: Path
    kind: str
    dice: random.Random
    oracle: Oracle
    machines: Cluster | None = None
    """The query runs on this cluster, or else in local mode."""
    commits: int = 0
    """So many commits were added to the source."""
    driver_kills: int = 0
    worker_kills: int = 0
    executor_kills: int = 0
    queries_ended: int = 0
    """So many queries ended with an error after a worker or an executor was killed, and were started again."""

    def __post_init__(self) -> None:
        self.oracle.create(self.catalog.warehouse, "d.source", TABLES["plain"])
        self.copy = self.catalog.create_table("d.copy", TABLES[self.kind])

    def kill_once(self, *, workers: int) -> None:
        """Start the query and kill all its processes: in three of four rounds after it has committed and so
        many workers or executors were killed, else at a random moment of its start.
        """
        job = start(Path(self.catalog.warehouse), self.checkpoint, self.kind, self.machines)
        try:
            if self.dice.random() < 0.25:
                self.add()
                time.sleep(self.dice.random() * 15)
            else:
                self._wait_for_commit(job)
                self._kill_workers(job, workers)
        finally:
            kill_all(job)
            self.driver_kills += 1
        if self.kind == "plain":
            copied, there = self.rows("d.copy"), self.rows("d.source")
            assert len(copied) == len(set(copied)), "rows are doubled"
            assert set(copied) <= set(there), "rows were made up"

    def finish(self) -> None:
        """Start the query and wait until the copy has all rows; then it gets no more."""
        job = start(Path(self.catalog.warehouse), self.checkpoint, self.kind, self.machines)
        try:
            deadline = time.monotonic() + PATIENCE
            while not self.is_complete():
                assert time.monotonic() < deadline, "rows are missing or doubled"
                assert job.poll() is None, "the query has ended"
                time.sleep(0.5)
            time.sleep(2)
            assert self.is_complete(), "rows are doubled"
        finally:
            kill_all(job)

    def add(self) -> None:
        """Let Java commit 20 rows to the source; no two rows of it are equal."""
        rows = [{"k": k % 7, "v": 1_000 * self.commits + k} for k in range(20)]
        self.oracle.write(self.catalog.warehouse, "d.source", rows)
        self.commits += 1

    def rows(self, table: str) -> list[str]:
        """The rows that Java reads."""
        return self.oracle.read(self.catalog.warehouse, table)

    def is_complete(self) -> bool:
        """Whether the copy is what the source makes of it: its rows, or the sum for each key."""
        copied, source = self.rows("d.copy"), self.rows("d.source")
        if self.kind == "plain":
            return copied == source
        sums: dict[int, int] = {}
        for row in map(json.loads, source):
            sums[row["k"]] = sums.get(row["k"], 0) + int(row["v"])
        return {row["k"]: int(row["v"]) for row in map(json.loads, copied)} == sums

    def _wait_for_commit(self, job: subprocess.Popen[bytes]) -> None:
        """Add rows until the query has committed something, or has ended."""
        before, most, deadline = latest(self.copy), self.commits + A_ROUND, time.monotonic() + PATIENCE
        while latest(self.copy) == before and job.poll() is None:
            assert time.monotonic() < deadline, "the query committed nothing"
            if (
                self.commits < most
            ):  # a query takes two of them in a micro-batch, and must catch up in the end
                self.add()
            time.sleep(0.3)

    def _kill_workers(self, job: subprocess.Popen[bytes], count: int) -> None:
        """Kill workers, and executors of a cluster, while the query has something to do; Spark runs a task that
        failed again.
        """
        for _ in range(count):
            if job.poll() is not None:
                break
            self.add()
            time.sleep(self.dice.random() * 1.5)
            self._kill_worker_or_executor(job)
        self.add()
        time.sleep(self.dice.random() * 2)
        self.queries_ended += job.poll() is not None

    def _kill_worker_or_executor(self, job: subprocess.Popen[bytes]) -> None:
        if self.machines is None:
            workers = [
                pid
                for pid, line in processes(job.pid)
                if "pyspark.daemon" in line or "pyspark/daemon" in line
            ]
            self.worker_kills += kill_one(workers, self.dice)
        elif self.dice.random() < 0.5:
            self.executor_kills += kill_one(self.machines.executors(), self.dice)
        else:
            self.worker_kills += kill_one(self.machines.python_workers(), self.dice)
