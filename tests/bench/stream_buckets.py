"""Benchmark: the state of the buckets that the driver of a stream hands to its tasks, for micro-batch after micro-batch.

    .venv/bin/python -m tests.bench.stream_buckets --files 100000

The table is that of `plan_java`, whose metadata Java Paimon wrote. Before each micro-batch another writer commits some rows.
The state is read anew, and followed from the micro-batch before, in turns in one process: CPU and wall time (medians).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from lakecore import Table, load_catalog
from lakecore.write.assigned import AssignedBy, StreamBuckets
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.plan_java import made
from tests.bench.tables import PAIMON


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=15, help="micro-batches")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args()
    warehouse, name = made(options.files)
    measured = conditions([PAIMON])
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(warehouse / "db.db" / name, Path(folder) / "db.db" / name)
        table = load_catalog(folder, **{"local.fsync": "false"}).load_table(f"db.{name}")
        figures = {"files": options.files, "runs": options.runs, **measure(table, options.runs)}
    write_figures("stream_buckets", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def measure(table: Table, runs: int) -> dict[str, Any]:
    """Both ways in turns; the first micro-batch, in which both read everything, is left out."""
    followed = StreamBuckets()
    ways = {"anew": AssignedBy.latest, "followed": followed.latest}
    costs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(runs + 1):
        commit_some_rows(table, number)
        states = {}
        for way, read in ways.items():
            states[way], *cost = timed(lambda read=read: read(table._session(table._with_user(None))))
            costs[way].append((cost[0], cost[1]))
        assert states["anew"].snapshot == states["followed"].snapshot
        assert states["anew"].buckets._parts.keys() == states["followed"].buckets._parts.keys()
    return {
        way: {
            "cpu_ms": round(median(cpu for cpu, _ in found[1:]) * 1000, 2),
            "wall_ms": round(median(wall for _, wall in found[1:]) * 1000, 2),
        }
        for way, found in costs.items()
    }


def commit_some_rows(table: Table, number: int) -> None:
    """Ten rows of one partition, as another writer commits them."""
    schema = table.scan().schema
    columns = {field.name: pa.nulls(10, field.type) for field in schema}
    for key in table.schema.primary_keys:
        values = [number * 10 + at for at in range(10)]
        whole = pa.types.is_integer(schema.field(key).type)
        columns[key] = pa.array(values if whole else ["2026-01-01"] * 10).cast(schema.field(key).type)
    table.with_options({"write-only": "true"}).write(pa.table(columns))


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    began, used = time.perf_counter(), time.process_time()
    result = run()
    return result, time.process_time() - used, time.perf_counter() - began


if __name__ == "__main__":
    main()
