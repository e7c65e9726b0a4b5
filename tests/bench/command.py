"""Benchmark: `lakecore compact` from the start of its process to its end, next to Java Paimon, on the same files.

    .venv/bin/python -m tests.bench.command [--rows 5000000] [--runs 3] [--cases pk1,pk4] [--figures DIRECTORY]

The command chooses its engine, as it does for users. The peer is a JVM that compacts one table with two threads (one for one
bucket), from its start to its answer. The two run in turns, each time in a new process on a fresh copy of a table that
Java Paimon wrote. Java Paimon counts the rows of both results of the last turn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant
from tests.bench.tables import PAIMON, fresh_copy, java, prepare

CASES = ("pk1", "pk4", "app", "app_12", "seq1_10", "late1_10", "pu4", "agg4", "lkp4")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    cases, measured = options.cases.split(","), conditions([PAIMON])
    warehouse = prepare(options.rows, cases)
    figures = [compare(warehouse, case, options.runs) for case in cases]
    whole = {"rows": options.rows, "runs": options.runs, "cases": figures}
    write_figures("command", measured, whole, options.figures)
    print(json.dumps(figures, indent=2))


def compare(warehouse: Path, case: str, runs: int) -> dict[str, Any]:
    """Both sides in turns; one run of each before, which is not counted, so that files are in the page cache."""
    seconds: dict[str, list[float]] = {"java": [], "lakecore": []}
    engines: set[str] = set()
    for number in range(runs + 1):
        with fresh_copy(warehouse, case) as table:
            took = {"java": _java(warehouse, case, table.name)}
            rows = _rows(warehouse, table.name)
        with fresh_copy(warehouse, case) as table:
            took["lakecore"], engine = _command(warehouse, case, table.name)
            if _rows(warehouse, table.name) != rows:
                raise RuntimeError(f"{case}: Java reads other numbers of rows from the two results")
        engines.add(engine)
        if number:
            for side, one in took.items():
                seconds[side].append(one)
    medians = {side: median(all_runs) for side, all_runs in seconds.items()}
    return {
        "case": case,
        "ratio": medians["java"] / medians["lakecore"],
        "engines": sorted(engines),
        "load_after": os.getloadavg(),
        **{side: {"seconds": medians[side], "all_seconds": seconds[side]} for side in seconds},
    }


def _java(warehouse: Path, case: str, table: str) -> float:
    threads = "1" if case == "pk1" else "2"
    peer = Contestant("java", [*java("Peer"), str(warehouse), threads], warehouse / "java.log")
    done = peer.first(table)
    peer.close()
    if not done.report["rows_in"]:
        raise RuntimeError(f"{case}: Java compacted nothing: {done.report}")
    return done.seconds


def _command(warehouse: Path, case: str, table: str) -> tuple[float, str]:
    """The seconds of the command, and the engine that it chose."""
    strategy = "universal" if case.startswith("app") else "full"  # as the peer
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [Path(sys.executable).with_name("lakecore"), "--warehouse", warehouse, "--json", "compact"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, f"db.{table}", "--strategy", strategy],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    seconds = time.perf_counter() - started
    engine = re.search(r'"engine": "(\w+)"', done.stdout)
    assert engine, done.stdout
    return seconds, engine[1]


def _rows(warehouse: Path, table: str) -> int:
    peer = Contestant("java", [*java("Peer"), str(warehouse), "2"], warehouse / "java.log")
    rows = peer.first(f"read {table}").report["rows_out"]
    peer.close()
    return int(rows)


if __name__ == "__main__":
    main()
