"""Kills a streaming query that copies a table, at random moments, again and again: `python -m tests.fuzz.stream_soak
--minutes 30 --seed 1`. Drivers and Python workers are killed, in local mode and on a standalone cluster of two workers, and
there also the JVMs of executors. Java writes the table that is copied. Every row must be in the copy exactly once, as Java
reads it, and Java's check finds no damage in the copy.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import lakecore
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.oracle import Oracle, findings
from tests.support.spark_cluster import Cluster, cluster
from tests.support.stream_kills import TABLES, Kills

JAVA = "1.4.2"


WORKERS = 2
PLACES = ("local", "cluster")


def soak(kind: str, machines: Cluster | None, minutes: float, seed: int) -> dict[str, int]:
    """Kill the query of one kind for some minutes, and let it end; what was done. Raises AssertionError."""
    began, dice = time.monotonic(), random.Random(f"{seed} {kind} {machines is None}")
    with tempfile.TemporaryDirectory() as folder, Oracle(JAVA) as oracle:
        catalog = lakecore.load_catalog(f"{folder}/lake", create_warehouse=True)
        job = Kills(catalog, Path(folder) / "checkpoint", kind, dice, oracle, machines)
        while time.monotonic() - began < minutes * 60:
            job.kill_once(workers=3 + dice.randrange(5))
            print(
                f"{kind}: {job.driver_kills} drivers, {job.worker_kills} workers, {job.executor_kills} executors "
                f"killed",
                flush=True,
            )
        job.finish()
        complaints = {
            one for one in findings(oracle.fsck(f"{folder}/lake", "d.copy")) if "orphan: " not in one
        }
        assert complaints == set(), complaints
        latest = job.copy.latest_snapshot()
        return {
            "driver kills": job.driver_kills,
            "worker kills": job.worker_kills,
            "executor kills": job.executor_kills,
            "queries that ended after a worker or an executor was killed": job.queries_ended,
            "commits of Java to the source": job.commits,
            "rows of the source": len(job.rows("d.source")),
            "snapshots of the copy": latest.id if latest else 0,
            "seconds": round(time.monotonic() - began),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions((JAVA,))
    figures: dict[str, object] = {"minutes": arguments.minutes, "seed": arguments.seed}
    minutes = arguments.minutes / len(PLACES) / len(TABLES)
    runs: dict[str, dict[str, int]] = {}
    for place in PLACES:
        with nullcontext() if place == "local" else cluster(WORKERS) as machines:
            for kind in TABLES:
                runs[f"{kind}, {place}"] = soak(kind, machines, minutes, arguments.seed)
    figures["kills"] = sum(count for run in runs.values() for name, count in run.items() if "kills" in name)
    figures |= runs
    print(json.dumps(figures, indent=2))
    print(write_figures("stream_soak", measured, figures, arguments.folder))


if __name__ == "__main__":
    main()
