"""Driver and workers of a streaming query are killed with SIGKILL again and again: every row of one table is in the
other exactly once. `LAKECORE_KILLS` says how often (4).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore.table import Table
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LAKECORE_KILLS", "4"))
PATIENCE = 180.0
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


def kill_worker(job: subprocess.Popen[bytes], dice: random.Random) -> None:
    workers = [
        pid for pid, line in processes(job.pid) if "pyspark.daemon" in line or "pyspark/daemon" in line
    ]
    if workers:
        with suppress(ProcessLookupError):
            os.kill(dice.choice(workers), signal.SIGKILL)


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


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_once(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    source = catalog.create_table("d.source", TABLES["plain"])
    copy = catalog.create_table("d.copy", TABLES[kind])
    dice, added = random.Random(KILLS), 0
    for number in range(KILLS // 2):
        job = start(tmp_path / "lake", tmp_path / "checkpoint", kind)
        try:
            added = wait_for_commit(job, copy, source, added)
            if number % 3 == 2:
                kill_worker(job, dice)
                add(source, added)
                added += 1
            time.sleep(dice.random() * 2)
        finally:
            kill_all(job)
        assert set(map(str, source.scan().to_arrow().to_pylist())) >= (
            set(map(str, copy.scan().to_arrow().to_pylist())) if kind == "plain" else set()
        )
    job = start(tmp_path / "lake", tmp_path / "checkpoint", kind)
    try:
        deadline = time.monotonic() + PATIENCE
        while contents(copy, kind) != contents(source, kind):
            assert time.monotonic() < deadline, "rows are missing or doubled"
            assert job.poll() is None
            time.sleep(0.5)
        time.sleep(2)
        assert contents(copy, kind) == contents(source, kind)
    finally:
        kill_all(job)
    complaints = findings(oracle.fsck(tmp_path / "lake", "d.copy"))
    assert {one for one in complaints if not one.startswith("orphan: ")} == set()
