"""Benchmark: what reads and writes through Spark cost that a data source in Python cannot avoid.

    .venv/bin/python -m tests.bench.spark_floor [--rows 5000000] [--write-rows 1000000] [--runs 3] [--figures DIRECTORY]

Three sides do each task in turns, on two local cores: Paimon's connector (see `tests.bench.spark_io`), the format `lakecore`, and the
floor. The floor of a read is a data source in Python that hands over the batches of the same partitions, which are mapped from
memory and not decoded; that of a write counts the batches that it gets, and drops them. So the distance from
lakecore to the floor is lakecore's, and that from the floor to the connector is of Spark's passing of rows between the JVM and
Python. The first task of each side is not among the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, Measured
from tests.bench.spark_io import CONNECTOR, PYSPARK, connector, contestant, new_tables, source_of, target
from tests.bench.tables import PAIMON, prepare
from tests.support.environments import ROOT, locked_environment

READS = ("app", "pk1", "pk4", "pk4_1")
WRITES = {"into_append": "lakecore.spark.write", "into_append_format": "df.write"}
"""Writes of an append table, with the call that lakecore writes by; the floor takes its rows in the same way."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--write-rows", type=int, default=1_000_000, help="rows of each write")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", default=",".join((*READS, *WRITES)))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    measured = conditions([PAIMON, CONNECTOR])
    cases = options.cases.split(",")
    warehouse = prepare(options.rows, sorted({case for case in cases if case in READS} | {"app"}))
    for case in cases:
        if case in READS:
            keep_batches(warehouse, case)
    source = source_of(warehouse, options.write_rows)
    sides = contestants(warehouse, source)
    rows = {"rows": options.rows, "write_rows": options.write_rows}
    whole: dict[str, Any] = {**rows, "runs": options.runs, "pyspark_of_peer": PYSPARK, "cases": []}
    for case in cases:
        whole["cases"].append(compare(sides, warehouse, source, case, options.runs))
        write_figures(
            "spark_floor", measured, whole, options.figures
        )  # a run that is stopped has those before
    for one in sides.values():
        one.close()
    print(json.dumps(whole["cases"], indent=2))


def contestants(warehouse: Path, source: Path) -> dict[str, Contestant]:
    """The three sides with their sessions started."""
    peer = locked_environment(f"spark-{PYSPARK}", ROOT / f"tests/spark_versions/{PYSPARK}.lock")
    sides = {
        "paimon": contestant("paimon", peer, warehouse, str(connector())),
        "lakecore": contestant("lakecore", Path(sys.executable), warehouse),
        "floor": contestant("floor", Path(sys.executable), warehouse),
    }
    for name, one in sides.items():
        one.first(f"write {target('into_append', name)} {source}" if name == "floor" else "read app")
    return sides


def keep_batches(warehouse: Path, table: str) -> None:
    """Store the batches of each partition of a read as the format gives them to Spark, once."""
    from lakecore import load_catalog
    from lakecore.spark.data_source.columns import ColumnsForSpark
    from lakecore.spark.data_source.partitions import plan_partitions, read_parts
    from lakecore.spark.data_source.request import Nanoseconds, Parallelism
    from lakecore.spark.data_source.spark_types import spark_schema

    folder = warehouse / "batches" / table
    if (warehouse / "batches" / f"{table}.complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scan = load_catalog(str(warehouse)).load_table(f"db.{table}").scan()
    columns = ColumnsForSpark(spark_schema(scan.row_type, Nanoseconds.REFUSE), Nanoseconds.REFUSE)
    for number, parts in enumerate(plan_partitions(scan, Parallelism(None, 1024))):
        with pa.ipc.new_file(str(folder / f"{number:05d}.arrow"), columns.arrow) as file:
            for batch in read_parts(scan, parts):
                file.write_batch(columns.convert(batch))
    (warehouse / "batches" / f"{table}.complete").touch()


def compare(
    sides: dict[str, Contestant], warehouse: Path, source: Path, case: str, runs: int
) -> dict[str, Any]:
    """All sides do one task in turns, once to warm up, and then `runs` times."""
    measured: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, one in sides.items():
            if case in WRITES and name != "floor":
                new_tables(warehouse, case, name)
            done = one.ask(_task(source, case, name))
            if number:
                measured[name].append(done)
    figures = {
        name: {
            "seconds": median(done.report["seconds"] for done in all_runs),
            "cpu": median(done.cpu for done in all_runs),
            "all_seconds": [done.report["seconds"] for done in all_runs],
            "all_cpu": [done.cpu for done in all_runs],
        }
        for name, all_runs in measured.items()
    }
    floor = figures["floor"]
    return {
        "case": case,
        "by": WRITES.get(case, "spark.read"),
        "speed_of_floor": figures["paimon"]["seconds"] / floor["seconds"],
        "speed_of_lakecore": figures["paimon"]["seconds"] / figures["lakecore"]["seconds"],
        "cpu_of_floor": floor["cpu"] / figures["paimon"]["cpu"],
        "cpu_of_lakecore": figures["lakecore"]["cpu"] / figures["paimon"]["cpu"],
        "load_after": os.getloadavg(),
        **figures,
    }


def _task(source: Path, case: str, name: str) -> str:
    if case in READS:
        return f"read {case}"
    action = "save" if case.endswith("_format") and name != "paimon" else "write"
    return f"{action} {target(case, name)} {source}"


if __name__ == "__main__":
    main()
