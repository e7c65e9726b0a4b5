"""Benchmark: lookups by key, next to Java Paimon's LocalTableQuery, on the same files.

    .venv/bin/python -m tests.bench.lookup [--rows 1000000] [--load-rows 5000000] [--runs 3] [--figures DIRECTORY]

A table of one bucket with nine columns and BIGINT keys, fully compacted by Java, and one commit more on level 0. Both sides begin
without local copies: one key cold, then warm keys one by one, then all keys in a random order: ours at once, Java's one after the
other, because its query has no other way. Then both load a full cache of a larger table (`tests/bench/full_cache.py`). CPU time is that of the process, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import lakecore
from lakecore.lookup.query.lookup_cache import LookupCache
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.full_cache import RELEASE, loads
from tests.bench.tables import CACHE, PAIMON
from tests.support.oracle import Oracle

ONES = 3000
TABLE = "d.lookup"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--load-rows", type=int, default=5_000_000, help="rows of the full cache; 0: none")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args(argv)
    measured = conditions([PAIMON, RELEASE])
    figures = compare(options.rows, options.runs)
    if options.load_rows:
        with Oracle(PAIMON) as oracle:
            warehouse = prepared(oracle, options.load_rows)
        with Oracle(RELEASE) as oracle:  # fetches the jars
            oracle.call("schema", warehouse, TABLE)
        figures["full_cache"] = {"rows": options.load_rows, **loads(warehouse, options.runs)}
    print(json.dumps(figures, indent=2))
    write_figures(
        "lookup", measured, {"rows": options.rows, "runs": options.runs, **figures}, options.figures
    )


def compare(rows: int, runs: int) -> dict[str, Any]:
    """Both sides in turn; the medians of the runs after the first, which is not counted."""
    found: dict[str, list[dict[str, Any]]] = {"lakecore": [], "java": []}
    with Oracle(PAIMON) as oracle:
        warehouse = prepared(oracle, rows)
        for number in range(runs + 1):
            ours = lakecore_lookups(warehouse, rows)
            theirs = oracle.call("bench-lookup", warehouse, TABLE, "--keys", rows, "--ones", ONES)
            if ours["found"] != theirs["found"]:
                raise RuntimeError(f"lakecore finds {ours['found']} keys, Java {theirs['found']}")
            if number:
                found["lakecore"].append(ours)
                found["java"].append(theirs)
    figures = {
        side: {key: median(one[key] for one in all_) for key in all_[0]} for side, all_ in found.items()
    }
    figures["lakecore"]["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return figures


def prepared(oracle: Oracle, rows: int) -> Path:
    """The table in the cache of the benches; made once for each size."""
    warehouse = CACHE / f"lookup-{rows}"
    if not (warehouse / "d.db" / "lookup").is_dir():
        warehouse.mkdir(parents=True, exist_ok=True)
        oracle.call("bench-gen", warehouse, TABLE, "--rows", rows, "--commits", 4, "--keys", rows)
        oracle.call("compact", warehouse, TABLE, "--full", "--option", "write-only=false")
        oracle.write(warehouse, TABLE, [{"k": k, "s1": "new"} for k in range(0, rows, max(1, rows // 1000))])
    return warehouse


def lakecore_lookups(warehouse: Path, rows: int) -> dict[str, Any]:
    table = lakecore.load_catalog(str(warehouse)).load_table(TABLE)
    order = np.random.default_rng(7).permutation(rows)
    with table.new_query(cache=LookupCache()) as query:
        started = time.perf_counter()
        query.refresh()
        query.lookup((), 0, (int(order[0]),))
        cold = time.perf_counter() - started
        ones = order[:ONES].tolist()
        for key in ones:
            query.lookup((), 0, (key,))
        started, cpu = time.perf_counter(), time.process_time()
        for key in ones:
            query.lookup((), 0, (key,))
        one, one_cpu = (time.perf_counter() - started) / ONES, (time.process_time() - cpu) / ONES
        keys = pa.table({"k": order.astype(np.int64)})
        started, cpu = time.perf_counter(), time.process_time()
        found = query.lookup_table(keys)
        many, many_cpu = time.perf_counter() - started, time.process_time() - cpu
    return {
        "cold_seconds": cold,
        "warm_one_us": one * 1e6,
        "warm_one_cpu_us": one_cpu * 1e6,
        "all_keys_seconds": many,
        "all_keys_cpu_seconds": many_cpu,
        "found": sum(found.matches.to_pylist()),
    }


if __name__ == "__main__":
    main()
