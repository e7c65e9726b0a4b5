"""Benchmark: writing tables, next to Java Paimon and its library in Rust.

    .venv/bin/python -m tests.bench.write [--rows 5000000] [--runs 5] [--figures DIRECTORY]

All rows of a table that Java wrote go to a new table in one commit: an append table, and one with a primary key of four
buckets, which each side sorts. Java and pypaimon-rust have two threads with a writer each, which take split after split;
lakecore has one call, `Table.write` with the batches of a scan. Each side is one process that writes in turn; the first
write of each is not counted. The tables are write-only, so that nobody compacts, and lakecore counts the rows of each
with metadata alone.
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

import lakecore
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.tables import PAIMON, RUST, prepare
from tests.bench.three_sides import beside, contestants, table_of_sides

CASES = {"app": "append", "pk4_1": "primary key, four buckets"}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work:
        return work(options.work)
    measured = conditions([PAIMON, RUST])
    warehouse = prepare(options.rows, list(CASES))
    figures = [compare(warehouse, case, options.runs) for case in CASES]
    title = f"writing {options.rows:,} rows: Java Paimon {PAIMON}, {RUST} and lakecore"
    table_of_sides(title, figures, CASES)
    write_figures(
        "write", measured, {"rows": options.rows, "runs": options.runs, "cases": figures}, options.figures
    )
    return None


def compare(warehouse: Path, case: str, runs: int) -> dict[str, Any]:
    """All sides copy one table in turn, each to new tables."""
    sides = contestants(warehouse, "tests.bench.write")
    catalog = lakecore.load_catalog(str(warehouse))
    source = catalog.load_table(f"db.{case}")
    rows, measured = source.scan().count(), {name: [] for name in sides}  # type: dict[str, list[Any]]
    for run in range(-1, runs):
        for name, side in sides.items():
            target = f"copy_{name}_{os.getpid()}_{run + 1}"  # a new name, which no catalog has in a cache
            new_table(catalog, source, target)
            task = f"copy {case} {target}"
            done = side.first(task) if run < 0 else side.ask(task)
            written = catalog.load_table(f"db.{target}")
            if written.scan().count() != rows:
                raise RuntimeError(f"{case}: {name} wrote other rows than the {rows:,} of the source")
            size = sum(path.stat().st_size for path in Path(written.path).glob("bucket-*/data-*"))
            catalog.drop_table(f"db.{target}", purge=True)
            if run >= 0:
                measured[name].append((done, size))
    figures = {
        name: {
            "seconds": median(one.report["seconds"] for one, _ in found),
            "cpu": median(one.cpu for one, _ in found),
            "bytes": found[-1][1],
            "all_seconds": [one.report["seconds"] for one, _ in found],
            "peak_bytes": sides[name].peaks(),
        }
        for name, found in measured.items()
    }
    for side in sides.values():
        side.close()
    return beside(case, figures["lakecore"]["bytes"], figures)


def new_table(catalog: Any, source: Any, name: str) -> None:
    """An empty table with the columns and the key of another, and its buckets."""
    schema = source.schema
    columns = [f"{field.name} {field.type}" for field in schema.row_type.fields]
    options = {"bucket": schema.options.get("bucket", "-1"), "write-only": "true"}
    keys = list(schema.primary_keys)
    catalog.create_table(f"db.{name}", {"columns": columns, "primaryKeys": keys, "options": options})


def work(warehouse: Path) -> None:
    """Our side: copies each table named on stdin."""
    from lakecore.types.pandas_probe import skip_pandas

    skip_pandas()
    catalog = lakecore.load_catalog(str(warehouse))
    for line in sys.stdin:
        _, name, target = line.split()
        started = time.perf_counter()
        batches = catalog.load_table(f"db.{name}").scan().to_batches()
        catalog.load_table(f"db.{target}").write(batches)
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
