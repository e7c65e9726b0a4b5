"""A streaming query that copies a table is killed with SIGKILL at each change that an epoch makes to the lake, to the
checkpoint of Spark and to the local state: what its test and its harness share. Java writes the table that is copied, and
reads both.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import lakecore
from tests.support.counted_changes import Counted
from tests.support.oracle import Oracle, findings
from tests.support.stream_kills import kill_all, processes

__all__ = ["SCOPES", "SINKS", "EpochKills"]

PATIENCE = 600.0
_GAVE_UP = "Python worker failed to connect back"
"""Spark waits ten seconds for a Python process to start, and a busy machine may take longer. Nothing was killed."""
SCOPES = ("all", "alone")
"""The driver with all its processes is killed, or the process alone that makes the change."""
_SOURCE = {"columns": ["k INT", "v BIGINT"]}
SINKS = {
    "plain": _SOURCE,
    "shuffled": {
        "columns": ["k INT", "v BIGINT"],
        "primaryKeys": ["k"],
        "options": {
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "full-compaction.delta-commits": "1",
        },
    },
}
"""These are the tables of the copies. That of `shuffled` is compacted after each commit, in the process of the driver."""


@dataclass
class EpochKills:
    """It kills the query of one sink, once an epoch, and starts it again on the same checkpoint."""

    folder: Path
    sink: str
    oracle: Oracle
    commits: int = 0
    """So many commits were added to the source."""
    places: list[str] = field(default_factory=list)
    """The changes at which something was killed."""
    failures: list[str] = field(default_factory=list)
    """The errors of queries of which a process was killed while the driver went on."""

    def __post_init__(self) -> None:
        self.counted = Counted(self.folder)
        self.lake = self.counted.watched / "lake"
        options = {"local.fsync": "false"}
        catalog = lakecore.load_catalog(self.lake, create_warehouse=True, **options)
        self.oracle.create(self.lake, "d.source", _SOURCE)
        self.copy = catalog.create_table("d.copy", SINKS[self.sink])
        self._job: subprocess.Popen[bytes] | None = None
        self._scope = SCOPES[0]

    def __enter__(self) -> EpochKills:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()

    def kill_at(self, at: int | str, scope: str) -> bool:
        """Let an epoch begin, kill at the change of it that `Counted.arm` chooses, and let the query go on; False if
        the epoch had no such change. Raises AssertionError unless each row then is in the copy exactly once.
        """
        if self._job is None:
            self._run_whole()
        self._add()
        self._scope = scope
        self.counted.arm(at, everything=scope == "all")
        answer = self._run()
        fired = self.counted.fired()
        if fired is None and _GAVE_UP in (answer or ""):
            self.counted.disarm()
            return self.kill_at(at, scope)
        if answer is None:  # it was killed, or waits for that
            assert fired is not None, "the job has ended without a kill"
            self._end()
        elif answer != "ended":
            assert fired is not None, answer
            self.failures.append(answer)
        self.counted.disarm()
        if fired is not None:
            self.places.append(fired)
        self._run_whole()
        self._check(fired)
        return fired is not None

    def check_files(self) -> None:
        """Neither Java nor lakecore finds damage in the copy; orphans are no damage."""
        complaints = findings(self.oracle.fsck(self.lake, "d.copy"))
        assert {one for one in complaints if not one.startswith("orphan: ")} == set()

    def _run_whole(self) -> None:
        answer, deadline = self._run(), time.monotonic() + PATIENCE
        while _GAVE_UP in (answer or "") and time.monotonic() < deadline:
            answer = self._run()
        assert answer == "ended", answer or (self.folder / "job.log").read_text()[-4000:]

    def _add(self) -> None:
        """Two commits of Java; no two rows of the source are equal."""
        for _ in range(2):
            rows = [{"k": k % 7, "v": 1_000 * self.commits + k} for k in range(20)]
            self.oracle.write(self.lake, "d.source", rows)
            self.commits += 1

    def _check(self, fired: str | None) -> None:
        copied, source = (self.oracle.read(self.lake, name) for name in ("d.copy", "d.source"))
        if self.sink == "shuffled":
            sums: dict[int, int] = {}
            for row in map(json.loads, source):
                sums[row["k"]] = sums.get(row["k"], 0) + int(row["v"])
            found = {row["k"]: int(row["v"]) for row in map(json.loads, copied)}
            assert found == sums, f"rows are missing or doubled after a kill at: {fired}"
        else:
            assert copied == source, f"rows are missing or doubled after a kill at: {fired}"

    def _run(self) -> str | None:
        """Let the job run the query once; its answer, None if it has ended or waits to be killed."""
        job = self._job or self._start()
        self._job = job
        assert job.stdin is not None
        assert job.stdout is not None
        job.stdin.write(b"go\n")
        job.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as answers:
            answers.register(job.stdout, selectors.EVENT_READ)
            while not answers.select(timeout=0.2):
                assert time.monotonic() < deadline, "the query does not end"
                if self._waits() or job.poll() is not None:
                    return None
        line = job.stdout.readline().decode().strip()
        return line or None

    def _waits(self) -> bool:
        fired = self.counted.fired()
        return fired is not None and (fired.startswith("jvm ") or self._scope == "all")

    def _start(self) -> subprocess.Popen[bytes]:
        checkpoint = self.counted.watched / "checkpoint"
        with open(self.folder / "job.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.epoch_job", f"{self.lake}", f"{checkpoint}", self.sink],
                cwd=Path(__file__).parents[2],
                env=self.counted.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def _end(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            while processes(job.pid):
                kill_all(job)
            for pipe in (job.stdin, job.stdout):
                if pipe is not None:
                    pipe.close()
