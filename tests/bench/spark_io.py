"""Benchmark: reading and writing tables through Spark, next to Paimon's own connector for Spark, on the same files.

    .venv/bin/python -m tests.bench.spark_io [--rows 5000000] [--runs 3] [--warm-up 5] [--figures DIRECTORY]

The peer is paimon-spark-3.5 0.9.0 (the newest release of the connector that can be fetched by its name) on PySpark 3.5; lakecore
runs on the PySpark of this checkout. Both have a session on two local cores and run in turns. The first task of each,
with the start of the session, and the first `--warm-up` turns of each case, are not among the medians: the JVM compiles code that is new to it for
some ten runs, and the cases before have not run the same code on both sides. Reads take every column of a table that Java Paimon wrote to
Spark's format `noop`; those named `…_to_spark` are `Scan.to_spark` for lakecore, the others the format `lakecore`. Writes take the same parquet files to a new table that is `write-only`, so that neither side
compacts. Java Paimon counts the rows of both tables of each write.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, Measured
from tests.bench.tables import PAIMON, java, prepare
from tests.support.environments import ROOT, locked_environment

READS = {
    "app": "append, 400 files",
    "pk1": "one bucket, five runs",
    "pk4": "four buckets, five runs",
    "pk4_1": "four buckets, one run",
}
FRAMES = {
    "app_to_spark": "append, 400 files, `Scan.to_spark`",
    "pk4_1_to_spark": "four buckets, one run, `Scan.to_spark`",
}
"""Reads of the same tables, in which Spark's own reader of Parquet reads the files for lakecore."""
WRITES = {"into_append": "into an append table", "into_keyed": "into four buckets of a primary-key table"}
OPTIONS = {"write-only": "true", "file.format": "parquet", "file.compression": "zstd"}
CONNECTOR = "org.apache.paimon:paimon-spark-3.5:0.9.0"
PYSPARK = "3.5"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=5, help="turns of each case that are not counted")
    parser.add_argument("--cases", default=",".join((*READS, *FRAMES, *WRITES)))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    measured = conditions([PAIMON, CONNECTOR])
    warehouse = prepare(options.rows, list(READS))
    sides = contestants(warehouse)
    counts = (options.warm_up, options.runs)
    cases = [compare(sides, warehouse, case, counts) for case in options.cases.split(",")]
    for side in sides.values():
        side.close()
    turns = {"warm_up": options.warm_up, "runs": options.runs}
    whole = {"rows": options.rows, **turns, "pyspark_of_peer": PYSPARK, "cases": cases}
    write_figures("spark_io", measured, whole, options.figures)
    print(json.dumps(cases, indent=2))


def contestants(warehouse: Path) -> dict[str, Contestant]:
    """Both sides with their sessions started."""
    peer = locked_environment(f"spark-{PYSPARK}", ROOT / f"tests/spark_versions/{PYSPARK}.lock")
    sides = {
        "paimon": contestant("paimon", peer, warehouse, str(connector())),
        "lakecore": contestant("lakecore", Path(sys.executable), warehouse),
    }
    for side in sides.values():
        side.first("read pk4_1")
    return sides


def contestant(name: str, python: Path, warehouse: Path, *jar: str) -> Contestant:
    """The process of a side, see `tests.bench.spark_contestant`."""
    settings = [f"PYSPARK_PYTHON={python}", f"PYTHONPATH={ROOT}", "SPARK_LOCAL_IP=127.0.0.1"]
    command = [
        "env",
        *settings,
        str(python),
        "-m",
        "tests.bench.spark_contestant",
        name,
        str(warehouse),
        *jar,
    ]
    return Contestant(name, command, warehouse / f"spark-{name}.log")


def connector() -> Path:
    """The jar of Paimon's connector, fetched once by Maven."""
    folder = Path("~/.cache/paimon-oracle/spark").expanduser()
    _, name, release = CONNECTOR.split(":")
    jar = folder / f"{name}-{release}.jar"
    if not jar.exists():
        copy = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={CONNECTOR}",
            f"-DoutputDirectory={folder}",
        ]
        subprocess.run(copy, check=True)
    return jar


def compare(
    sides: dict[str, Contestant], warehouse: Path, case: str, counts: tuple[int, int]
) -> dict[str, Any]:
    """Both sides do one task in turns: `counts` are the turns to warm up, and those that are measured."""
    warm_up, runs = counts
    tasks = _writes(sides, warehouse, case) if case in WRITES else _reads(sides, case)
    measured: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(warm_up + runs):
        for name, task in tasks.items():
            new_tables(warehouse, case, name)
            one = sides[name].ask(task)
            if number >= warm_up:
                measured[name].append(one)
    if case in WRITES:
        _same_rows(warehouse, case, list(sides))
    figures = {
        name: {
            "seconds": median(one.report["seconds"] for one in all_runs),
            "cpu": median(one.cpu for one in all_runs),
            "all_seconds": [one.report["seconds"] for one in all_runs],
            "peak_bytes": sides[name].peaks(),
        }
        for name, all_runs in measured.items()
    }
    ratio = figures["paimon"]["seconds"] / figures["lakecore"]["seconds"]
    return {"case": case, "ratio": ratio, "load_after": os.getloadavg(), **figures}


def _reads(sides: dict[str, Contestant], case: str) -> dict[str, str]:
    table = case.removesuffix("_to_spark")
    action = "frame" if case in FRAMES else "read"
    return {name: f"{action if name == 'lakecore' else 'read'} {table}" for name in sides}


def _writes(sides: dict[str, Contestant], warehouse: Path, case: str) -> dict[str, str]:
    source = source_of(warehouse)
    return {name: f"write {target(case, name)} {source}" for name in sides}


def source_of(warehouse: Path, count: int | None = None) -> Path:
    """The first `count` rows of the append table, None for all, as eight parquet files, written by pyarrow."""
    import pyarrow.parquet as pq

    import lakecore

    folder = warehouse / ("source" if count is None else f"source-{count}")
    if not (folder / "_SUCCESS").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        rows = lakecore.load_catalog(str(warehouse)).load_table("db.app").scan(limit=count).to_arrow()
        step = -(-len(rows) // 8)
        for number in range(8):
            pq.write_table(
                rows.slice(number * step, step), folder / f"part-{number}.parquet", compression="zstd"
            )
        (folder / "_SUCCESS").touch()
    return folder


def target(case: str, side: str) -> str:
    """The name of the table that a write of a side goes into."""
    return f"{case}_{side}"


def new_tables(warehouse: Path, case: str, side: str) -> None:
    """The empty table that a write of this side goes into."""
    if not case.startswith("into_"):
        return
    import lakecore

    catalog, name = lakecore.load_catalog(str(warehouse)), target(case, side)
    shutil.rmtree(warehouse / "db.db" / name, ignore_errors=True)
    columns = catalog.load_table("db.app").scan().schema
    keyed = {"primary_keys": ("id",), "options": {**OPTIONS, "bucket": "4"}}
    catalog.create_table(f"db.{name}", columns, **(keyed if case == "into_keyed" else {"options": OPTIONS}))


def _same_rows(warehouse: Path, case: str, sides: Sequence[str]) -> None:
    """Raises RuntimeError unless Java Paimon reads as many rows from the table of each side."""
    peer = Contestant("java", [*java("Peer"), str(warehouse), "2"], warehouse / "java.log")
    tasks = [f"read {target(case, name)}" for name in sides]
    counts = [peer.first(tasks[0]), *(peer.ask(task) for task in tasks[1:])]
    peer.close()
    rows = {name: one.report["rows_out"] for name, one in zip(sides, counts, strict=True)}
    if len(set(rows.values())) > 1 or 0 in rows.values():
        raise RuntimeError(f"{case}: Java reads other numbers of rows: {rows}")


if __name__ == "__main__":
    main()
