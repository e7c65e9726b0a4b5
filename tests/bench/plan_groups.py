"""Benchmark: plan a table of more files than one plan may have, group of partitions after group (`Scan.plans`).

    .venv/bin/python -m tests.bench.plan_groups --files 10000000

The table is that of `tests.bench.plan_java`, written by Java Paimon. Each way to plan it runs in a process of its own,
from process start: `groups` has one plan at a time, and `whole` one plan of everything. Java plans it as a whole in a JVM
with the heap that is given, unless that is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.plan_java import made
from tests.bench.tables import PAIMON, ROOT, java


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000_000)
    parser.add_argument("--ways", default="groups,whole", help="ways to plan, separated by commas")
    parser.add_argument("--heap", type=int, default=0, help="GiB of Java's heap")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warehouse, table = made(options.files)
    if options.plan:
        print(json.dumps(planned(warehouse, table, options.plan)))
        return
    measured = conditions([PAIMON])
    own = [sys.executable, "-m", "tests.bench.plan_groups", "--files", str(options.files), "--plan"]
    figures: dict[str, Any] = {"files": options.files}
    for way in options.ways.split(","):
        figures[way] = run([*own, way], "")
        print(way, figures[way], file=sys.stderr)
    if options.heap:
        first, *rest = java("PlanPeer")
        command = [first, f"-Xmx{options.heap}g", *map(str, rest), str(warehouse)]
        figures["java"] = {"heap_gib": options.heap, **run(command, f"{table}\n")}
    write_figures("plan_groups", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def planned(warehouse: Path, table: str, way: str) -> dict[str, int]:
    """Plan the table one way, and return what the plans have."""
    from lakecore import load_catalog

    scan = load_catalog(str(warehouse)).load_table(f"db.{table}").scan()
    plans = scan.plans() if way == "groups" else iter([scan.plan()])
    counts = {"plans": 0, "files": 0, "splits": 0, "largest": 0}
    for plan in plans:
        files = plan.file_count  # type: ignore[attr-defined] # that of a table
        counts["plans"] += 1
        counts["files"] += files
        counts["splits"] += len(plan)
        counts["largest"] = max(counts["largest"], files)
        del plan
    return counts


def run(command: list[str], text: str) -> dict[str, Any]:
    """Run a process, and return its last line of JSON with its time, CPU and peak memory; or how it ended."""
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.close()
    lines = process.stdout.read().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    report = json.loads(lines[-1]) if process.returncode == 0 else {"exit_code": process.returncode}
    return {
        **report,
        "seconds": round(time.monotonic() - started, 1),
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
