"""Benchmark: expiry of a long history, and the search for orphans among very many files, next to Java Paimon.

    .venv/bin/python -m tests.bench.maintain [--snapshots 2000] [--files 1000000] [--runs 3] [--engine local|spark]
        [--figures DIRECTORY]

Each run is a process of its own on each side, so that the peak of memory is that run's; it is timed within, without the
start of the process. Expiry works on copies and deletes 50 files a snapshot, with manifests and lists; the search deletes
nothing. The peer is Paimon's own expiry and local orphan cleaning, with as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.maintain_tables import CHURN, make, working_copy
from tests.bench.processes import Contestant, Measured
from tests.bench.tables import PAIMON, compile_java, java

CASES = {"expire": "history", "orphans": "listed"}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--snapshots", type=int, default=2000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--engine", choices=("spark", "local"), default="local")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work:
        return work(options.work, options.engine)
    measured = conditions([PAIMON])
    compile_java()
    warehouse = make(options.snapshots, options.files)
    figures = [compare(warehouse, case, options.runs, options.engine) for case in options.cases.split(",")]
    sizes = {"expire": options.snapshots * CHURN, "orphans": options.files}
    show(figures, sizes)
    for one in figures:
        one["files"] = sizes[one["case"]]
    write_figures("maintain", measured, {"runs": options.runs, "cases": figures}, options.figures)
    return None


def compare(warehouse: Path, case: str, runs: int, engine: str) -> dict[str, Any]:
    """Both sides in turn, a fresh process each."""
    commands = {
        "java": [*java("MaintainPeer"), str(warehouse)],
        "lakecore": [
            sys.executable,
            "-m",
            "tests.bench.maintain",
            "--engine",
            engine,
            "--work",
            str(warehouse),
        ],
    }
    measured: dict[str, list[tuple[Measured, int]]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            side = Contestant(name, command, warehouse / f"{name}.log")
            with _table(warehouse, case) as table:
                done = side.first(f"{case} {table}")
                measured[name].append((done, max(side.peaks().values())))
                side.close()
    counts = {name: {done.report["count"] for done, _ in found} for name, found in measured.items()}
    if counts["java"] != counts["lakecore"] or len(counts["java"]) != 1 or not max(counts["java"]):
        raise RuntimeError(f"{case}: the sides disagree on what goes: {counts}")
    figures = {
        name: {
            "seconds": median(done.report["seconds"] for done, _ in found),
            "cpu": median(done.cpu for done, _ in found),
            "peak_bytes": max(peak for _, peak in found),
            "all_seconds": [done.report["seconds"] for done, _ in found],
        }
        for name, found in measured.items()
    }
    return {
        "case": case,
        "engine": engine,
        "load_after": os.getloadavg(),
        "count": max(counts["java"]),
        **figures,
    }


@contextmanager
def _table(warehouse: Path, case: str) -> Iterator[str]:
    """What only looks works on the table itself."""
    if case == "orphans":
        yield CASES[case]
        return
    with working_copy(warehouse, CASES[case]) as copy:
        yield copy.name


def work(warehouse: Path, engine: str) -> None:
    """Our side: what stdin asks for, a line of JSON each."""
    import lakecore
    from lakecore.executor import Executor, SerialExecutor
    from lakecore.jobs import expire_snapshots, remove_orphan_files
    from lakecore.spark.executor import SparkExecutor
    from lakecore.types.pandas_probe import skip_pandas

    skip_pandas()
    executor: Executor = SparkExecutor() if engine == "spark" else SerialExecutor()
    for line in sys.stdin:
        verb, table = line.split()
        started = time.perf_counter()
        lake = lakecore.load_catalog(str(warehouse))
        now = int(time.time() * 1000)
        if verb == "expire":
            expiry = expire_snapshots.Job(
                table=f"db.{table}", retain_max=1, retain_min=1, older_than_ms=now, max_deletes=10**9
            )
            count = len(expire_snapshots.run(expiry, lake, executor).snapshots)
        else:
            search = remove_orphan_files.Job(table=f"db.{table}", older_than_ms=now - 1, dry_run=True)
            count = remove_orphan_files.run(search, lake, executor).files
        seconds = time.perf_counter() - started - executor.startup_seconds
        print(json.dumps({"seconds": seconds, "count": count}), flush=True)


def show(figures: Sequence[dict[str, Any]], sizes: dict[str, int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "files", "s", "files/s", "lakecore : Java", "CPU s", "peak MB", title="Java / lakecore")
    for one in figures:
        java_side, ours, files = one["java"], one["lakecore"], sizes[one["case"]]
        table.add_row(
            {"expire": f"expiry of {one['count']:,} snapshots", "orphans": "search for orphans"}[one["case"]],
            f"{files:,}",
            f"{java_side['seconds']:.1f} / {ours['seconds']:.1f}",
            f"{files / java_side['seconds']:,.0f} / {files / ours['seconds']:,.0f}",
            f"{java_side['seconds'] / ours['seconds']:.2f}x (aim 1x)",
            f"{java_side['cpu']:.1f} / {ours['cpu']:.1f}",
            f"{java_side['peak_bytes'] / 1e6:.0f} / {ours['peak_bytes'] / 1e6:.0f}",
        )
    Console(width=130).print(table)
    print("load average at the end of each:", *(f"{one['load_after'][0]:.1f}" for one in figures))


if __name__ == "__main__":
    main()
