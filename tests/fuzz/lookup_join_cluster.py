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
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from tests.bench.figures import FIGURES, conditions, write_figures

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


def processes(root: int) -> Iterator[tuple[int, str]]:
    """The processes below one, and their command lines."""
    for thread in Path(f"/proc/{root}/task").glob("*/children"):
        with suppress(OSError):
            for child in thread.read_text().split():
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                yield int(child), line.decode("utf-8", "replace")
                yield from processes(int(child))


@contextmanager
def cluster() -> Iterator[tuple[str, list[int]]]:
    """The address of the master, and the processes of the workers."""
    home = str(Path(pyspark.__file__).parent)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [f"{home}/bin/spark-class", "org.apache.spark.deploy"]
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    more = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        arguments = [command[0], f"{command[1]}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        started = [subprocess.Popen([*arguments, "--webui-port", "0"], **more)]  # type: ignore[call-overload]
        stack.callback(lambda: [one.kill() for one in started])
        for _ in range(WORKERS):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            line = [command[0], f"{command[1]}.worker.Worker", "--cores", "1", "--memory", "1g", "-d", folder]
            started.append(subprocess.Popen([*line, "--webui-port", "0", master], **more))  # type: ignore[call-overload]
        while not _answers(port):
            time.sleep(0.2)
        yield master, [one.pid for one in started[1:]]


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


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

    def kill(self, workers: Sequence[int]) -> None:
        """Kill a Python worker or an executor now and then."""
        while not self.ended.wait(self.dice.uniform(4, 16)):
            found = [one for worker in workers for one in processes(worker)]
            python = [pid for pid, line in found if "pyspark" in line and "java" not in line]
            executors = [pid for pid, line in found if "CoarseGrainedExecutorBackend" in line]
            name, pids = (VICTIMS[0], executors) if self.dice.random() < 0.25 else (VICTIMS[1], python)
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
    with tempfile.TemporaryDirectory(prefix="lookup-join-") as folder, cluster() as (master, workers):
        catalog = lakecore.load_catalog(folder, **{"local.fsync": "false"})
        result = Run(catalog.create_table("d.t", SCHEMA), seed)
        result.write()
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(master).appName("lookup joins")
        settings = {
            "spark.executorEnv.PYTHONPATH": os.getcwd(),
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.task.maxFailures": "20",
            "spark.excludeOnFailure.enabled": "false",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        threads = [
            threading.Thread(target=result.keep_writing),
            threading.Thread(target=result.kill, args=(workers,)),
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
