"""Benchmark: making file indexes of existing files, and finding rows by them, next to Java Paimon, on the same files.

    .venv/bin/python -m tests.bench.index [--rows 5000000] [--runs 3] [--engine spark|local] [--figures DIRECTORY]

The append table of 400 files (`Gen.java`): a bloom filter on `c_big`, bitmaps, a bit-sliced index and a range bitmap. Both sides
make the indexes of fresh copies in turn (the first is from process start and not counted), then look for the same values in what
they made; a look-up without indexes shows what they save.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant
from tests.bench.tables import PAIMON, fresh_copy, java, prepare

TABLE = "app"
LOOKUPS = 20
OPTIONS = {
    "file-index.bloom-filter.columns": "c_big",
    "file-index.bloom-filter.c_big.items": "20000",
    "file-index.bloom-filter.c_big.fpp": "0.01",
    "file-index.bitmap.columns": "c_city,c_flag",
    "file-index.bsi.columns": "c_int",
    "file-index.range-bitmap.columns": "c_d1",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work:
        return work(options.work, options.engine)
    measured = conditions([PAIMON])
    figures = compare(prepare(options.rows, [TABLE]), options.runs, options.engine)
    show(figures, options.rows)
    whole = {"rows": options.rows, "runs": options.runs, **figures}
    write_figures("index", measured, whole, options.figures)
    return None


def compare(warehouse: Path, runs: int, engine: str) -> dict[str, Any]:
    """Both sides in turn, on copies of the table."""
    pairs = [f"{key}={value}" for key, value in OPTIONS.items()]
    ours = [sys.executable, "-m", "tests.bench.index", "--engine", engine, "--work", str(warehouse)]
    sides = {
        "java": Contestant("java", [*java("IndexPeer"), str(warehouse), "2", *pairs], warehouse / "java.log"),
        "lakecore": Contestant("lakecore", ours, warehouse / "lakecore.log"),
    }
    values = some_values(warehouse)
    made: dict[str, list[Any]] = {name: [] for name in sides}
    found: dict[str, dict[str, list[Any]]] = {name: {"indexed": [], "plain": []} for name in sides}
    for number in range(runs + 1):
        for name, side in sides.items():
            with fresh_copy(warehouse, TABLE) as table:
                rewrite = f"rewrite {table.name}"
                done = side.ask(rewrite) if number else side.first(rewrite)
                if number:
                    made[name].append(done)
                for one in values if number == runs else values[:1]:
                    for kind, where in (("indexed", table.name), ("plain", TABLE)):
                        answer = side.ask(f"find {where} c_big {one}")
                        if number == runs:
                            found[name][kind].append(answer)
    rows = {
        (name, kind): [a.report["rows"] for a in answers]
        for name in sides
        for kind, answers in found[name].items()
    }
    if len(set(map(tuple, rows.values()))) != 1:
        raise RuntimeError(f"the sides disagree on the rows that they find: {rows}")
    figures = {
        name: {
            "seconds": median(one.report["seconds"] for one in made[name]),
            "cpu": median(one.cpu for one in made[name]),
            "rows": made[name][0].report["rows"],
            "indexed_ms": 1000 * median(one.report["seconds"] for one in found[name]["indexed"]),
            "plain_ms": 1000 * median(one.report["seconds"] for one in found[name]["plain"]),
            "peak_bytes": side.peaks(),
        }
        for name, side in sides.items()
    }
    for side in sides.values():
        side.close()
    return {"engine": engine, "load_after": os.getloadavg(), **figures}


def some_values(warehouse: Path) -> list[int]:
    import lakecore

    table = lakecore.load_catalog(str(warehouse)).load_table(f"db.{TABLE}")
    values = table.scan(columns=["c_big"], limit=LOOKUPS * 5000).to_arrow().column("c_big")
    return [values[i].as_py() for i in range(0, LOOKUPS * 5000, 5000)]


def work(warehouse: Path, engine: str) -> None:
    """Our side: what stdin asks for, a line of JSON each."""
    import lakecore
    from lakecore.executor import Executor, SerialExecutor
    from lakecore.jobs import rewrite_file_index
    from lakecore.spark.executor import SparkExecutor
    from lakecore.types.pandas_probe import skip_pandas

    skip_pandas()
    executor: Executor = SparkExecutor() if engine == "spark" else SerialExecutor()
    catalog = lakecore.load_catalog(str(warehouse))
    for line in sys.stdin:
        verb, name, *rest = line.split()
        started = time.perf_counter()
        if verb == "rewrite":
            job = rewrite_file_index.Job(table=f"db.{name}", options=OPTIONS)
            rows = rewrite_file_index.run(job, catalog, executor).rows
        else:
            table = catalog.load_table(f"db.{name}")
            rows = table.scan(where=f"{rest[0]} = {rest[1]}").to_arrow().num_rows
        print(json.dumps({"seconds": time.perf_counter() - started, "rows": rows}), flush=True)


def show(figures: dict[str, Any], rows: int) -> None:
    from rich.console import Console
    from rich.table import Table

    java_side, ours = figures["java"], figures["lakecore"]
    table = Table(
        "", "Java", f"lakecore ({figures['engine']})", title=f"file indexes of {rows:,} rows, 400 files"
    )
    table.add_row("making them, s", f"{java_side['seconds']:.2f}", f"{ours['seconds']:.2f}")
    table.add_row("  CPU, s", f"{java_side['cpu']:.2f}", f"{ours['cpu']:.2f}")
    table.add_row(
        "finding a value by them, ms", f"{java_side['indexed_ms']:.0f}", f"{ours['indexed_ms']:.0f}"
    )
    table.add_row("finding a value without, ms", f"{java_side['plain_ms']:.0f}", f"{ours['plain_ms']:.0f}")
    for name, kind in (("peak MB, JVM", "jvm"), ("peak MB, a Python process", "python")):
        cells = [f"{side['peak_bytes'].get(kind, 0) / 1e6:.0f}" for side in (java_side, ours)]
        table.add_row(name, *cells)
    Console(width=90).print(table)
    print("load average at the end:", f"{figures['load_after'][0]:.1f}")


if __name__ == "__main__":
    main()
