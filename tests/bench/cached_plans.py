"""Benchmark: plans of a table of very many files that Java Paimon wrote, in one process, with the cache of a catalog and without.

    .venv/bin/python -m tests.bench.cached_plans --files 1000000

The table is that of `plan_java`. Each catalog has a process of its own: the first plan, further plans (median), plans of one
partition, the bytes that the cache counts, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.plan_java import DAY, made
from tests.bench.tables import PAIMON, ROOT

CATALOGS: dict[str, dict[str, str]] = {
    "without": {},
    "default limits": {"cache-enabled": "true"},
    "enough memory": {"cache-enabled": "true", "cache.manifest.max-memory": "1 gb"},
    "too little memory": {"cache-enabled": "true", "cache.manifest.max-memory": "129 mb"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5, help="further plans of each catalog")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--catalog", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        print(json.dumps(plans(options.serve, options)))
        return
    warehouse, table = made(options.files)
    measured = conditions([PAIMON])
    figures: dict[str, Any] = {"files": options.files, "runs": options.runs}
    for name in CATALOGS:
        command = [sys.executable, "-m", "tests.bench.cached_plans", "--serve", f"{warehouse} {table}"]
        command += ["--catalog", name, "--runs", str(options.runs)]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        figures[name] = json.loads(done.stdout)
    assert len({(one["files"], one["splits"]) for one in (figures[name] for name in CATALOGS)}) == 1
    write_figures("cached_plans", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def plans(place: str, options: argparse.Namespace) -> dict[str, Any]:
    """Plan again and again in this process."""
    from lakecore import load_catalog

    warehouse, table = place.split()
    catalog = load_catalog(warehouse, **CATALOGS[options.catalog])

    def plan(where: str | None = None) -> tuple[Any, float, float]:
        began, used = time.perf_counter(), time.process_time()
        made: Any = catalog.load_table(f"db.{table}").scan(where=where).plan()
        return made, time.perf_counter() - began, time.process_time() - used

    whole, *first = plan()
    facts = {"files": whole.file_count, "splits": len(whole)}
    del whole
    further = [plan()[1:] for _ in range(options.runs)]
    one = [plan(f"day = '{DAY}'")[1:] for _ in range(options.runs)]
    cache: Any = getattr(catalog, "manifest_cache", None)
    return {
        **facts,
        "first": _cost([tuple(first)]),
        "further": _cost(further),
        "partition": _cost(one),
        "cache_mb": None if cache is None else round(cache.size / (1 << 20), 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _cost(runs: list[tuple[float, ...]]) -> dict[str, float]:
    return {
        "seconds": round(median(run[0] for run in runs), 3),
        "cpu": round(median(run[1] for run in runs), 3),
    }


if __name__ == "__main__":
    main()
