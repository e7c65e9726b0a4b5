"""Benchmark: plan scans of a table of very many files that Java Paimon wrote, by the calls that a user makes.

    .venv/bin/python -m tests.bench.plan_java --files 1000000

The table (`GenPlan.java`) has a primary key, 100 partitions of 100 buckets and ten commits, and no data files. Java,
pypaimon-rust and lakecore plan in turns, each in a process of its own: from process start, again in the warm process (median), and the
scan of one partition. Commands of lakecore run on the same table from process start, with time, CPU and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, Measured
from tests.bench.tables import CACHE, PAIMON, ROOT, RUST, compile_java, java, rust

PARTITIONS, BUCKETS = 100, 100
DAY = "day-000042"
COMMANDS = (
    "compact --dry-run",
    "compact --dry-run --strategy full",
    "describe",
    "expire-snapshots --dry-run",
    "files",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="warm plans of each side")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    warehouse, table = made(options.files)
    measured = conditions([PAIMON, RUST])
    figures: dict[str, Any] = {
        "files": options.files,
        "runs": options.runs,
        **compare(warehouse, table, options),
    }
    figures["dry_run"] = run_command(warehouse, COMMANDS[0], table)
    figures["commands"] = {line: run_command(warehouse, line, table) for line in COMMANDS[1:]}
    write_figures("plan_java", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def made(files: int) -> tuple[Path, str]:
    """The warehouse and its table, made once for each size."""
    compile_java()
    warehouse, table = CACHE / "plans", f"t{files}"
    warehouse.mkdir(exist_ok=True)
    if not (warehouse / f"{table}.complete").exists():
        print(f"writing the metadata of {files:,} files", file=sys.stderr)
        sizes = [str(number) for number in (files, PARTITIONS, BUCKETS)]
        subprocess.run([*java("GenPlan"), warehouse, table, *sizes], check=True)
        (warehouse / f"{table}.complete").touch()
    return warehouse, table


def compare(warehouse: Path, table: str, options: argparse.Namespace) -> dict[str, Any]:
    """All sides in turns. Raises AssertionError where they plan other files or splits (Rust names no files of a split)."""
    ours = [sys.executable, "-m", "tests.bench.plan_java", "--serve", str(warehouse)]
    sides = {
        "java": Contestant("java", [*java("PlanPeer"), str(warehouse)], warehouse / "java.log"),
        "rust": Contestant("rust", rust(warehouse), warehouse / "rust.log"),
        "lakecore": Contestant("lakecore", ours, warehouse / "lakecore.log"),
    }
    cold = {name: side.first(_task(name, table)) for name, side in sides.items()}
    warm = [{name: side.ask(_task(name, table)) for name, side in sides.items()} for _ in range(options.runs)]
    one = [
        {name: side.ask(_task(name, f"{table} {DAY}")) for name, side in sides.items()}
        for _ in range(options.runs)
    ]
    for turn in (cold, *warm, *one):
        for key in ("files", "splits"):
            assert turn["java"].report[key] == turn["lakecore"].report[key], turn
        assert turn["rust"].report["splits"] == turn["lakecore"].report["splits"], turn
    found = {}
    for name, side in sides.items():
        found[name] = {
            **cold[name].report,
            "cold": _cost([cold[name]]),
            "warm": _cost([turn[name] for turn in warm]),
            "partition": {"files": one[0]["java"].report["files"], **_cost([turn[name] for turn in one])},
            "peak_mb": max(side.peaks().values()) / (1 << 20),
        }
        side.close()
    return found


def _task(side: str, scan: str) -> str:
    """The line that a peer is given: the one in Rust also reads, so that it is told what to do."""
    return f"plan {scan}" if side == "rust" else scan


def _cost(runs: list[Measured]) -> dict[str, float]:
    return {
        "seconds": round(median(run.seconds for run in runs), 3),
        "cpu": round(median(run.cpu for run in runs), 3),
    }


def serve(warehouse: str) -> None:
    """Plan the scans that standard input names, as `PlanPeer.java` does."""
    from lakecore import load_catalog

    catalog = load_catalog(warehouse)
    for task in sys.stdin:
        table, *days = task.split()
        where = f"day = '{days[0]}'" if days else None
        plan: Any = catalog.load_table(f"db.{table}").scan(where=where).plan()
        report = {
            "files": plan.file_count,
            "splits": len(plan),
            "slow_entries": plan.entries.slow_entries,
        }
        print(json.dumps(report), flush=True)


def run_command(warehouse: Path, arguments: str, table: str) -> dict[str, float]:
    """Time, CPU and memory of a command of lakecore on the table, from process start."""
    started = time.monotonic()
    start = "import sys; from lakecore.cli.main import main; sys.exit(main())"
    name, *options = arguments.split()
    command = [sys.executable, "-c", start, "--warehouse", str(warehouse), name, f"db.{table}", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {
        "seconds": round(time.monotonic() - started, 3),
        "cpu": round(used.ru_utime + used.ru_stime, 3),
        "peak_mb": round(used.ru_maxrss / 1024, 1),
    }


if __name__ == "__main__":
    main()
