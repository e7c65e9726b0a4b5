"""Benchmark: compaction next to Java Paimon, on the same files.

    .venv/bin/python -m tests.bench.compact [--rows 5000000] [--runs 5] [--engine spark|local] [--figures DIRECTORY]

Tables that Java writes: one bucket, four buckets (five sorted runs each, a random quarter of the keys), one bucket of ten runs
whose keys do not meet, the same with late updates of the last ones, one bucket of a large file on the last level (which lakecore
wrote) and five small ones with updates in its last twelfth, or everywhere, the first of these with a large file that Java wrote as one
row group, append tables of 400 and of 12 files, and four buckets each
of partial-update, aggregation and a lookup changelog. Both sides compact fresh copies in turn; the first time is from process
start, the others are warm and give the medians. The floor is pyarrow reading the same files and writing as many rows, without any merge.
Ratios count: absolute times depend on the machine, and on what else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, Measured
from tests.bench.tables import PAIMON, fresh_copy, java, prepare

if TYPE_CHECKING:
    from lakecore.executor import Executor

CASES = {
    "pk1": "one bucket",
    "pk4": "four buckets",
    "app": "append, 400 files",
    "app_12": "append, 12 files",
    "seq1_10": "keys in order of time, 10 runs",
    "late1_10": "the same, 1 % late updates",
    "top1_5": "one large file, 5 % late updates",
    "flat1_5": "the same, 5 % uniform updates",
    "large1_5": "one large file of one row group that Java wrote, 5 % late updates",
    "pu4": "partial-update",
    "agg4": "aggregation",
    "lkp4": "lookup changelog",
}
LOW_CARDINALITY = ("_VALUE_KIND", "c_small", "c_city")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5, help="warm runs of each side")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--copy", choices=("none", "large"), default="large", help="what lakecore copies")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--floor", nargs=2, metavar=("TABLE", "ROWS"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work:
        return work(options.work, options.engine, options.copy)
    if options.floor:
        return floor(Path(options.floor[0]), int(options.floor[1]))
    cases, measured = options.cases.split(","), conditions([PAIMON])
    warehouse = prepare(options.rows, cases)
    figures = [compare(warehouse, case, options.runs, (options.engine, options.copy)) for case in cases]
    show(figures, options.rows, options.engine)
    whole = {"rows": options.rows, "runs": options.runs, "engine": options.engine, "cases": figures}
    write_figures("compact", measured, whole, options.figures)
    return None


def compare(warehouse: Path, case: str, runs: int, how: tuple[str, str]) -> dict[str, Any]:
    """Both sides on copies of one table, in turn. `how`: the engine of ours, and what it copies."""
    threads = "1" if case == "pk1" else "2"
    ours = [sys.executable, "-m", "tests.bench.compact", "--engine", how[0], "--copy", how[1]]
    ours += ["--work", str(warehouse)]
    sides = {
        "java": Contestant("java", [*java("Peer"), str(warehouse), threads], warehouse / "java.log"),
        "lakecore": Contestant("lakecore", ours, warehouse / "lakecore.log"),
    }
    cold: dict[str, Measured] = {}
    warm: dict[str, list[Measured]] = {name: [] for name in sides}
    floors: list[float] = []
    for number in range(runs + 1):
        for name, side in sides.items():
            with fresh_copy(warehouse, case) as table:
                if number:
                    warm[name].append(side.ask(table.name))
                else:
                    cold[name] = side.first(table.name)
                    check(case, name, cold[name].report)
        if number:
            floors.append(floor_cpu(warehouse / "db.db" / case, warm["java"][0].report["rows_out"]))
    rows = cold["java"].report["rows_in"]  # Java counts those of files that are only moved to another level
    figures = {
        name: {
            "cold_seconds": cold[name].seconds,
            "seconds": median(m.report["seconds"] for m in warm[name]),
            "cpu": median(m.cpu for m in warm[name]),
            "rows_per_second": median(rows / m.report["seconds"] for m in warm[name]),
            "peak_bytes": side.peaks(),
            "rows_in": cold[name].report["rows_in"],
            "rows_out": cold[name].report["rows_out"],
            "files_out": cold[name].report["files_out"],
            "all_seconds": [m.report["seconds"] for m in warm[name]],
        }
        for name, side in sides.items()
    }
    for side in sides.values():
        side.close()
    merged = {name: one["rows_in"] - one["rows_out"] for name, one in figures.items()}
    if merged["java"] != merged["lakecore"]:
        raise RuntimeError(f"{case}: the two sides disagree on the rows that the merge drops: {figures}")
    floor = median(floors)
    return {
        "case": case,
        "copy": how[1],
        "rows_ratio": figures["lakecore"]["rows_per_second"] / figures["java"]["rows_per_second"],
        "floor_cpu": floor,
        "cpu_to_floor": figures["lakecore"]["cpu"] / floor,
        "load_after": os.getloadavg(),
        **figures,
    }


def check(case: str, name: str, report: dict[str, Any]) -> None:
    if report.get("error") or not report["rows_in"]:
        raise RuntimeError(f"{case}: {name} compacted nothing: {report}")


def work(warehouse: Path, engine: str, copy: str) -> None:
    """Our side: compacts each table named on stdin, proof included; its report as a line of JSON."""
    from lakecore.cli.engine import Engine, executor  # as the command line does: Spark starts first
    from lakecore.types.pandas_probe import pandas_hidden

    with pandas_hidden(), executor(Engine(engine), None, {}, soon=True) as workers:
        _compact_named(warehouse, workers, copy)


def _compact_named(warehouse: Path, workers: Executor, copy: str) -> None:
    import lakecore
    from lakecore.format.parquet.splice.mode import CopyMode
    from lakecore.jobs import compact

    catalog = lakecore.load_catalog(str(warehouse))
    for line in sys.stdin:
        name = line.strip()  # Java's coordinator joins small files once, as `universal` does
        strategy = compact.Strategy.UNIVERSAL if name.startswith("app") else compact.Strategy.FULL
        job = compact.Job(table=f"db.{name}", strategy=strategy, copy=CopyMode(copy))
        print(json.dumps(compact.run(job, catalog, workers).to_json()), flush=True)


def floor_cpu(table: Path, rows: int) -> float:
    command = [sys.executable, "-m", "tests.bench.compact", "--floor", str(table), str(rows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def floor(table: Path, rows: int) -> None:
    """CPU seconds of decoding every column of the data files and encoding `rows` of their rows."""
    import pyarrow.parquet as pq

    files = sorted(table.glob("bucket-*/data-*.parquet"))
    target = table.parent.parent / "floor.parquet"
    schema = pq.read_schema(files[0])
    low = [name for name in LOW_CARDINALITY if name in schema.names]
    before = resource.getrusage(resource.RUSAGE_SELF)
    left = rows
    with pq.ParquetWriter(
        target, schema, compression="zstd", compression_level=1, use_dictionary=low
    ) as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=1 << 16, use_threads=False):
                if left:
                    writer.write_batch(batch.slice(0, left), row_group_size=1 << 20)
                    left -= min(left, batch.num_rows)
    after = resource.getrusage(resource.RUSAGE_SELF)
    target.unlink()
    print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def show(figures: Sequence[dict[str, Any]], rows: int, engine: str) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"compaction of {rows:,} rows: Java Paimon {PAIMON} and lakecore on {engine}, proof included"
    table = Table("", *(CASES[one["case"]] for one in figures), title=title)
    for name, cell in LINES.items():
        table.add_row(name, *(cell(one["java"], one["lakecore"], one["floor_cpu"]) for one in figures))
    Console(width=36 + 24 * len(figures)).print(table)
    print("load average at the end of each:", *(f"{one['load_after'][0]:.1f}" for one in figures))


Side = dict[str, Any]
LINES: dict[str, Callable[[Side, Side, float], str]] = {
    "warm, s: Java / lakecore": lambda java, ours, _: f"{java['seconds']:.2f} / {ours['seconds']:.2f}",
    "rows/s, lakecore : Java": lambda java, ours, _: (
        f"{ours['rows_per_second'] / java['rows_per_second']:.2f}x (aim 2.5x)"
    ),
    "from process start, s": lambda java, ours, _: f"{java['cold_seconds']:.1f} / {ours['cold_seconds']:.1f}",
    "CPU, s": lambda java, ours, _: f"{java['cpu']:.2f} / {ours['cpu']:.2f}",
    "CPU, lakecore : floor": lambda _, ours, floor: f"{ours['cpu'] / floor:.2f}x of {floor:.2f} (aim 1.55x)",
    "peak MB, Java": lambda java, *_: f"{java['peak_bytes'].get('jvm', 0) / 1e6:.0f}",
    "peak MB, a worker + JVM": lambda _, ours, __: " + ".join(
        f"{ours['peak_bytes'].get(kind, 0) / 1e6:.0f}" for kind in ("python", "jvm")
    ),
    "files after": lambda java, ours, _: f"{java['files_out']} / {ours['files_out']}",
}


if __name__ == "__main__":
    main()
