"""Benchmark: reading tables, next to Java Paimon and its library in Rust, on the same files.

    .venv/bin/python -m tests.bench.read [--rows 5000000] [--runs 5] [--figures DIRECTORY]

Every row and column of a table, merged, on two cores (the peers: a thread a split): an append table, primary-key tables with one, three and five
sorted runs, and the merge engines. Java decodes all columns and counts rows; lakecore and pypaimon-rust make Arrow
batches and count theirs. Each is one process that reads in turn; the first read of each is not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.tables import PAIMON, RUST, prepare
from tests.bench.three_sides import beside, contestants, table_of_sides

CASES = {
    "app": "append, 400 files",
    "pk1": "one bucket, five runs",
    "pk4_1": "primary key, one run",
    "pk4_3": "primary key, three runs",
    "pk4": "primary key, five runs",
    "pu4": "partial-update, five runs",
    "agg4": "aggregation, five runs",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.work:
        return work(options.work)
    cases, measured = options.cases.split(","), conditions([PAIMON, RUST])
    warehouse = prepare(options.rows, cases)
    figures = [compare(warehouse, case, options.runs) for case in cases]
    show(figures, options.rows)
    whole = {"rows": options.rows, "runs": options.runs, "cases": figures}
    write_figures("read", measured, whole, options.figures)
    return None


def compare(warehouse: Path, case: str, runs: int) -> dict[str, Any]:
    """All sides read one table in turn."""
    sides = contestants(warehouse, "tests.bench.read")
    for side in sides.values():
        side.first(f"read {case}")
    measured = {name: [] for name in sides}  # type: dict[str, list[Any]]
    for _ in range(runs):
        for name, side in sides.items():
            measured[name].append(side.ask(f"read {case}"))
    rows = {name: {one.report["rows_out"] for one in found} for name, found in measured.items()}
    if len(set.union(*rows.values())) > 1:
        raise RuntimeError(f"{case}: the sides disagree on the rows: {rows}")
    size = sum(path.stat().st_size for path in (warehouse / "db.db" / case).glob("bucket-*/data-*"))
    figures = {
        name: {
            "seconds": median(one.report["seconds"] for one in found),
            "cpu": median(one.cpu for one in found),
            "mb_per_second": size / median(one.report["seconds"] for one in found) / 1e6,
            "all_seconds": [one.report["seconds"] for one in found],
            "peak_bytes": sides[name].peaks(),
        }
        for name, found in measured.items()
    }
    for side in sides.values():
        side.close()
    return beside(case, size, figures)


def work(warehouse: Path) -> None:
    """Our side: reads each table named on stdin."""
    import lakecore
    from lakecore.types.pandas_probe import skip_pandas

    skip_pandas()
    catalog = lakecore.load_catalog(str(warehouse))
    for line in sys.stdin:
        started = time.perf_counter()
        table = catalog.load_table(f"db.{line.split()[1]}")
        rows = sum(batch.num_rows for batch in table.scan().to_batches())
        print(json.dumps({"seconds": time.perf_counter() - started, "rows_out": rows}), flush=True)


def show(figures: Sequence[dict[str, Any]], rows: int) -> None:
    table_of_sides(f"reading {rows:,} rows: Java Paimon {PAIMON}, {RUST} and lakecore", figures, CASES)


if __name__ == "__main__":
    main()
