"""Benchmark: the load of a full cache, next to Java Paimon's, on the same files; `tests.bench.lookup` runs it.

Each load is a process of its own, so that its peak memory is its own. Java is the release 2.0.0, whose full cache needs no
library beside the Flink connector; it has a heap of 2 GB at most, and its default of 256 MB for the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import lakecore
from tests.bench.figures import ROOT
from tests.bench.tables import CACHE

TABLE = "d.lookup"
RELEASE = "2.0.0"
SOURCE = ROOT / "tests" / "bench" / "java" / "full_cache" / "FullCachePeer.java"


def loads(warehouse: Path, runs: int) -> dict[str, Any]:
    """Both sides in turn; the medians of the runs after the first, which is not counted."""
    found: dict[str, list[dict[str, Any]]] = {"lakecore": [], "java": []}
    commands = {
        "lakecore": [sys.executable, "-m", "tests.bench.full_cache", str(warehouse)],
        "java": java_command(warehouse),
    }
    for number in range(runs + 1):
        for side, command in commands.items():
            with tempfile.TemporaryDirectory(prefix="full-cache-") as folder:
                done = subprocess.run(
                    [*command, folder], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
                )
            if number:
                found[side].append(json.loads(done.stdout.splitlines()[-1]))
    counts = {one["found"] for all_ in found.values() for one in all_}
    if len(counts) != 1:
        raise RuntimeError(f"the sides find different numbers of keys: {counts}")
    return {side: {key: median(one[key] for one in all_) for key in all_[0]} for side, all_ in found.items()}


def java_command(warehouse: Path) -> list[str]:
    home = os.environ.get("ORACLE_HOME", str(Path.home() / ".cache" / "paimon-oracle"))
    jars = f"{home}/{RELEASE}/jars"
    classes = CACHE / f"full-cache-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not (classes / "FullCachePeer.class").exists():
        compiler = ["javac", "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(compiler, check=True)
    flags = ["-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    flags += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "java.lang", "java.util")]
    path = str(warehouse / "d.db" / "lookup")
    return ["java", *flags, "-cp", f"{classes}:{jars}/*", "FullCachePeer", path]


def main(warehouse: str, directory: str) -> None:
    """Load the cache in this process."""
    table = lakecore.load_catalog(warehouse).load_table(TABLE)
    started = time.perf_counter()
    with table.new_lookup(["k"], directory=directory, options={"lookup.cache": "full"}) as lookup:
        seconds = time.perf_counter() - started
        found = lookup.lookup(pa.table({"k": np.arange(1000)})).num_rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": seconds, "peak_memory_mb": peak, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
