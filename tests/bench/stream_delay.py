"""Benchmark: the seconds from a small commit to its rows at the other end of a streaming query, next to Paimon's connector.

    .venv/bin/python -m tests.bench.stream_delay [--commits 30] [--rounds 3] [--figures DIRECTORY]

The peer is paimon-spark-3.5 0.9.0 on PySpark 3.5; lakecore runs on the PySpark of this checkout. Each has a session on
two local cores, which follows a table alone, in turns, with the same trigger. In the cases `append` and `keyed` a sink
collects the keys of a micro-batch and notes the time; in `copy` the sink of each side writes the rows to another table,
and the time is that of its snapshot. lakecore commits the rows in this process, some seconds apart. The delay of a commit
runs from the time in its snapshot. The first commits of a query are not among the figures. All rows must come. It takes some
(commits + 15) x 1.5 s x 6 x rounds: 20 minutes as given.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import lakecore
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant
from tests.bench.spark_io import CONNECTOR, PYSPARK, connector
from tests.support.environments import ROOT, locked_environment

COLUMNS = ["id INT", "v STRING"]
CASES: dict[str, dict[str, Any]] = {
    "append": {"options": {"write-only": "true"}},
    "keyed": {"primaryKeys": ["id"], "options": {"write-only": "true", "bucket": "2"}},
    "copy": {"options": {"write-only": "true"}},
}
WARM_UP = 5
INTERVAL_S = 1.5
WAIT_S = 90
ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How much is committed, and how often the queries look."""

    commits: int
    rounds: int
    trigger_ms: int


@dataclass(frozen=True, slots=True)
class Delays:
    """These are the delay of each commit, and the steps of the micro-batches of a query, in milliseconds."""

    delays: list[int]
    steps: list[dict[str, int]]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trigger-ms", type=int, default=100)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    course = Course(commits=options.commits, rounds=options.rounds, trigger_ms=options.trigger_ms)
    measured = conditions([CONNECTOR])
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="stream-delay-"))
    try:
        cases = run(folder, course, options.cases.split(","))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    whole = {
        "commits": course.commits * course.rounds,
        "rows_of_a_commit": ROWS,
        "trigger_ms": course.trigger_ms,
        "pyspark_of_peer": PYSPARK,
        "load_after": [round(load, 2) for load in os.getloadavg()],
        "seconds_of_the_bench": round(time.monotonic() - started),
        "cases": cases,
    }
    write_figures("stream_delay", measured, whole, options.figures)
    print(json.dumps(whole, indent=2))


def run(folder: Path, course: Course, cases: Sequence[str]) -> list[dict[str, Any]]:
    """Both sides follow a table of each case in turns."""
    catalog = lakecore.load_catalog(folder / "lake", create_warehouse=True)
    sides = followers(folder / "lake", folder)
    figures = []
    for case in cases:
        all_delays: dict[str, list[Delays]] = {name: [] for name in sides}
        for number in range(course.rounds):
            for name, side in sides.items():
                names = [f"{case}_{name}_{number}", f"target_{name}_{number}"]
                tables = [
                    catalog.create_table(f"db.{one}", {"columns": COLUMNS, **CASES[case]})
                    for one in names[: 2 if case == "copy" else 1]
                ]
                all_delays[name].append(follow(side, tables, folder / f"checkpoint-{names[0]}", course))
        figures.append({"case": case, **{name: _summary(all_delays[name]) for name in sides}})
    for side in sides.values():
        side.close()
    return figures


def followers(warehouse: Path, folder: Path) -> dict[str, Contestant]:
    """Both sides with their sessions started."""
    peer = locked_environment(f"spark-{PYSPARK}", ROOT / f"tests/spark_versions/{PYSPARK}.lock")
    arguments = {"paimon": (peer, str(connector())), "lakecore": (Path(sys.executable),)}
    sides = {}
    for name, (python, *jar) in arguments.items():
        settings = [f"PYSPARK_PYTHON={python}", f"PYTHONPATH={ROOT}", "SPARK_LOCAL_IP=127.0.0.1"]
        program = [str(python), "-m", "tests.bench.stream_follower", name, str(warehouse), *jar]
        sides[name] = Contestant(name, ["env", *settings, *program], folder / f"{name}.log")
        sides[name].first("ready")
    return sides


def follow(side: Contestant, tables: Sequence[Any], checkpoint: Path, course: Course) -> Delays:
    """Return what a query over the first table showed; a second one is its target.

    Raises RuntimeError when the query fails, and when rows do not come in time.
    """
    source, names = tables[0], [table.name.split(".")[1] for table in tables]
    put(source, 0)
    action = "copy" if len(tables) > 1 else "note"
    side.ask(" ".join([action, names[0], str(checkpoint), str(course.trigger_ms), *names[1:]]))

    def last() -> int:
        report = side.ask("look").report
        if report["error"]:
            raise RuntimeError(f"{side.name}: {report['error']}")
        return _last_key(tables[1]) if action == "copy" else int(report["last"])

    count = 1
    while last() < ROWS and count < WAIT_S:  # until micro-batches come
        put(source, count)
        count += 1
        time.sleep(1)
    wanted = range(count + WARM_UP, count + WARM_UP + course.commits)
    for number in range(count, wanted.stop):
        put(source, number)
        time.sleep(INTERVAL_S)
    _wait(side, last, wanted.stop * ROWS - 1)
    report = side.ask("stop").report
    times = _copies(tables[1]) if action == "copy" else {int(k): v for k, v in report["times"].items()}
    missing = [key for key in range(wanted.start * ROWS, wanted.stop * ROWS) if key not in times]
    if missing:
        raise RuntimeError(f"{side.name}: {len(missing)} rows of {source.name} did not come: {missing[0]}, …")
    committed = {snapshot.id - 1: snapshot.time_millis for snapshot in source.snapshots()}
    return Delays([_last_time(times, number) - committed[number] for number in wanted], report["durations"])


def _wait(side: Contestant, last: Callable[[], int], key: int) -> None:
    end = time.monotonic() + WAIT_S
    while last() < key:
        if time.monotonic() > end:
            raise RuntimeError(
                f"{side.name}: the row {key} did not come in {WAIT_S} s; the last one is {last()}"
            )
        time.sleep(1)


def _last_time(times: Mapping[int, int], number: int) -> int:
    return max(times[key] for key in range(number * ROWS, (number + 1) * ROWS))


def _last_key(target: Any) -> int:
    key = target.scan(columns=["id"]).min_max()["id"][1].as_py()
    return -1 if key is None else int(key)


def _copies(target: Any) -> dict[int, int]:
    """Return the times of the snapshots that brought the keys of a table."""
    times: dict[int, int] = {}
    earlier = None
    for snapshot in sorted(target.snapshots(), key=attrgetter("id")):
        added = (
            target.scan(snapshot=snapshot.id)
            if earlier is None
            else target.scan(incremental=f"{earlier}..{snapshot.id}")
        )
        earlier = snapshot.id
        for key in added.to_arrow()["id"].to_pylist():
            times.setdefault(key, snapshot.time_millis)
    return times


def put(table: Any, number: int) -> None:
    """Commit the rows of one number."""
    keys = range(number * ROWS, (number + 1) * ROWS)
    table.write(pa.table({"id": pa.array(keys, pa.int32()), "v": pa.array([f"v{key}" for key in keys])}))


def _summary(queries: Sequence[Delays]) -> dict[str, Any]:
    ordered = sorted(delay for one in queries for delay in one.delays)
    steps = [one for query in queries for one in query.steps]
    names = sorted({name for one in steps for name in one})
    return {
        "median_ms": median(ordered),
        "p95_ms": ordered[int(len(ordered) * 0.95)],
        "worst_ms": ordered[-1],
        "median_steps_ms": {name: median([one.get(name, 0) for one in steps]) for name in names},
    }


if __name__ == "__main__":
    main()
