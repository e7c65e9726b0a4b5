"""Lookup joins on a standalone cluster of Spark, while its workers are killed and the table changes.

    python -m tests.fuzz.lookup_join_cluster --minutes 3 [--seed 1]

A master and two workers run on this machine. A table of four buckets gets a new version of all rows now and then. Joins, with
and without a shuffle by bucket, run one after the other; meanwhile Python workers and executors are killed at random. Each row
must be joined once, with a version that was current at some moment since the join began. Figures:
`docs/figures/lookup_join_cluster.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.spark_cluster import Cluster, cluster, settings

KEYS = 400
ROWS = 4000
WORKERS = 2
VICTIMS = ("executors", "Python workers")
OPTIONS = {"lookup.continuous.discovery-interval": "1 ms"}
SCHEMA = {
    "columns": ["k INT", "g INT", "version INT"],
    "primaryKeys": ["k"],
    "options": {"bucket": "4"},
}


class Run:
    def __init__(self, table: lakecore.Table, seed: int) -> None:
        self.table = table
        self.dice = random.Random(seed)
        self.begun = self.done = 0
        self.ended = threading.Event()
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def write(self) -> None:
        """One version more."""
        self.begun += 1
        rows = [{"k": k, "g": k % 50, "version": self.begun} for k in range(KEYS)]
        self.table.write(pa.Table.from_pylist(rows, pa.schema([(name, pa.int32()) for name in rows[0]])))
        self.done = self.begun
        self.counts["versions"] += 1

    def keep_writing(self) -> None:
        while not self.ended.wait(1.0):
            self.write()

    def kill(self, machines: Cluster) -> None:
        """Kill a Python worker or an executor now and then."""
        while not self.ended.wait(self.dice.uniform(4, 16)):
            if self.dice.random() < 0.25:
                name, pids = VICTIMS[0], machines.executors()
            else:
                name, pids = VICTIMS[1], machines.python_workers()
            if pids:
                with suppress(ProcessLookupError):
                    os.kill(self.dice.choice(pids), signal.SIGKILL)
                    self.counts[f"{name} killed"] += 1

    def join(self, session: SparkSession, tasks: int | None, cache: str) -> None:
        oldest = self.done
        frame = session.range(ROWS, numPartitions=4).selectExpr(
            "cast(id as int) id", f"cast(id % {KEYS} as int) k"
        )
        options = {**OPTIONS, "lookup.cache": cache}
        left = frame if tasks is None else lakecore_spark.BucketShuffle(frame, tasks)
        joined = lakecore_spark.lookup_join(left, self.table, "k", ["version"], options=options)
        rows = joined.collect()
        newest = self.begun
        versions = {row["version"] for row in rows}
        if sorted(row["id"] for row in rows) != list(range(ROWS)):
            self.failures.append(f"{len(rows)} rows, not each once")
        if None in versions or not oldest <= min(versions) <= max(versions) <= newest:
            self.failures.append(f"versions {versions}, where {oldest} to {newest} were current")
        self.counts[f"joins, {'shuffled by bucket' if tasks else 'not shuffled'}, {cache} cache"] += 1


def run(minutes: float, seed: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="lookup-join-") as folder, cluster(WORKERS) as machines:
        catalog = lakecore.load_catalog(folder, **{"local.fsync": "false"})
        result = Run(catalog.create_table("d.t", SCHEMA), seed)
        result.write()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(machines.master).appName("lookup joins")
        for key, value in settings().items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        threads = [
            threading.Thread(target=result.keep_writing),
            threading.Thread(target=result.kill, args=(machines,)),
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60 * minutes
        try:
            while time.monotonic() < end and not result.failures:
                for tasks, cache in ((None, "auto"), (2, "auto"), (None, "full"), (2, "full")):
                    result.join(session, tasks, cache)
        finally:
            result.ended.set()
            for thread in threads:
                thread.join()
            session.stop()
        result.failures += [
            f"no {name} were killed" for name in VICTIMS if not result.counts[f"{name} killed"]
        ]
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions([])
    result = run(arguments.minutes, arguments.seed)
    figures = {
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "counts": dict(sorted(result.counts.items())),
        "failures": result.failures,
    }
    print(json.dumps(figures, indent=2))
    print(write_figures("lookup_join_cluster", measured, figures, arguments.folder))
    sys.exit(1 if result.failures else 0)


if __name__ == "__main__":
    main()
