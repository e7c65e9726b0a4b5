"""Benchmark: plan a scan of a table with very many files. No rows, only metadata; reads what lakecore wrote.

    .venv/bin/python -m tests.bench.plan --files 100000 --files 1000000

The table has a primary key, 11 columns, 1,000 partitions of 8 buckets; every tenth file was upgraded: an ADD that a
DELETE in a later manifest cancels, and another ADD. Each plan runs in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from lakecore.fs.local import LocalFileIO
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, FileSource, ManifestEntry, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.row.binary_row import encode_row
from lakecore.scan.plan import SplitPolicy, plan_splits
from lakecore.scan.scanner import Scanner
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.store.table_stores import TableStores
from lakecore.types.datatypes import DataField, parse_type
from tests.bench.figures import FIGURES, conditions, write_figures

PARTITIONS, BUCKETS, UPGRADED = 1000, 8, 10
COLUMNS = (
    ("id", "BIGINT NOT NULL"), ("dt", "STRING NOT NULL"), ("name", "STRING"), ("city", "STRING"),
    ("amount", "DECIMAL(12, 2)"), ("price", "DOUBLE"), ("n", "INT"), ("ts", "TIMESTAMP(3)"), ("day", "DATE"),
    ("ok", "BOOLEAN"), ("note", "STRING"),
)  # fmt: skip


def bench_schema() -> TableSchema:
    fields = tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(COLUMNS))
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields) - 1,
        partition_keys=("dt",),
        primary_keys=("dt", "id"),
        options={"bucket": str(BUCKETS)},
    )


def _files(start: int, count: int) -> Iterator[tuple[bytes, int, DataFile]]:
    """Files as a writer makes them: every bucket of a partition in turn; keys of a bucket ascend."""
    schema = bench_schema()
    values, key, partition = schema.row_type, schema.key_type, schema.partition_type
    draw = random.Random(start)
    for number in range(start, start + count):
        low = number * 1000
        day = f"2026-{number % PARTITIONS:04d}"
        names = [f"customer {draw.randrange(10**6):07d}" for _ in range(2)]
        first = (
            low,
            day,
            min(names),
            "Aachen",
            None,
            0.25,
            draw.randrange(99),
            1_700_000_000_000_000_000,
            19000,
            False,
            "a" * 16,
        )
        last = (
            low + 999,
            day,
            max(names),
            "Zwickau",
            None,
            draw.random() * 100,
            99999,
            1_700_000_900_000_000_000,
            20000,
            True,
            "z" * 16,
        )
        bounds = [encode_row((low,), key), encode_row((low + 999,), key)]
        name = f"data-{draw.getrandbits(128):032x}-{number % 7}.parquet"
        name = f"{name[:13]}-{name[13:17]}-{name[17:21]}-{name[21:25]}-{name[25:]}"
        yield (
            encode_row((day,), partition),
            number // PARTITIONS % BUCKETS,
            DataFile(
                file_name=name,
                file_size=draw.randrange(4 << 20, 128 << 20),
                row_count=1000,
                min_key=bounds[0],
                max_key=bounds[1],
                key_stats=SimpleStats(*bounds, (0,)),
                value_stats=SimpleStats(
                    encode_row(first, values),
                    encode_row(last, values),
                    (0, 0, *(draw.randrange(900) for _ in range(9))),
                ),
                min_sequence_number=low,
                max_sequence_number=low + 999,
                schema_id=0,
                level=5,
                creation_time=1_795_000_000_000 + number,
                delete_row_count=0,
                file_source=FileSource.COMPACT,
            ),
        )


def _write_part(task: tuple[str, int, int]) -> tuple[list[ManifestFile], list[ManifestFile]]:
    path, start, count = task
    store = _store(path)
    first, later = [], []
    for number, (partition, bucket, file) in enumerate(_files(start, count)):
        entry = ManifestEntry(
            kind=EntryKind.ADD, partition=partition, bucket=bucket, total_buckets=BUCKETS, file=file
        )
        if number % UPGRADED == 0:
            old = replace(entry, file=replace(file, level=4))
            first.append(old)
            later += [replace(old, kind=EntryKind.DELETE), entry]
        else:
            first.append(entry)
    return tuple(list(store.write(ManifestEntries.from_rows(rows))) for rows in (first, later))


def _store(path: str) -> ManifestStore:
    return ManifestStore(LocalFileIO(), TablePaths(path), bench_schema())


def make_table(path: str, files: int) -> None:
    """The metadata of a table with `files` live files."""
    started = time.perf_counter()
    chunk = 25_000
    tasks = [(path, start, min(chunk, files - start)) for start in range(0, files, chunk)]
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(_write_part, tasks))
    store = _store(path)
    SchemaStore(store.file_io, store.paths).publish(store.schema)
    base, _ = store.write_list([file for first, _ in parts for file in first])
    delta, _ = store.write_list([file for _, later in parts for file in later])
    snapshot = Snapshot(
        id=1, schema_id=0, base_manifest_list=base, delta_manifest_list=delta, commit_user="bench",
        commit_identifier=1, commit_kind=CommitKind.COMPACT, time_millis=1_795_000_000_000,
    )  # fmt: skip
    SnapshotStore(store.file_io, store.paths).publish(snapshot)
    size = sum(f.stat().st_size for f in Path(path).rglob("manifest-*"))
    print(
        f"made {files:,} files: {size >> 20} MB of manifests in {time.perf_counter() - started:.0f} s",
        flush=True,
    )


def measure(path: str) -> dict[str, float]:
    """Plan in this process; seconds of each step and the peak resident set (MB) of it."""
    store = _store(path)
    snapshots = SnapshotStore(store.file_io, store.paths)
    times, start_cpu = [time.perf_counter()], time.process_time()
    snapshot = snapshots.load(1)
    manifests = store.data_manifests(snapshot)
    entries = store.read(manifests)
    times.append(time.perf_counter())
    current = live_entries(entries)
    times.append(time.perf_counter())
    plan = plan_splits(current, SplitPolicy.from_options({}), store.schema.key_type)
    times.append(time.perf_counter())
    steps = [b - a for a, b in pairwise(times)]
    return {
        "entries": len(entries),
        "files": len(current),
        "splits": len(plan),
        "read": steps[0],
        "net": steps[1],
        "split": steps[2],
        "seconds": times[-1] - times[0],
        "cpu": time.process_time() - start_cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_scanner(path: str) -> dict[str, float]:
    """The same through the scanner: what a job calls."""
    store = _store(path)
    stores = TableStores(store.schema, store.file_io, store.paths)
    start, start_cpu = time.perf_counter(), time.process_time()
    plan = Scanner("bench", stores).plan(stores.snapshots.load(1), store.schema)
    return {
        "files": plan.file_count,
        "splits": len(plan),
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - start_cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _show(files: int, result: dict[str, float]) -> None:
    text = " ".join(
        f"{k}={v:,.2f}" if v < 1000 and k != "peak_mb" else f"{k}={v:,.0f}" for k, v in result.items()
    )
    print(f"{files:>9,} files: {text}", flush=True)


def _plans(path: Path, files: int, runs: int) -> dict[str, Any]:
    """Every plan of one table, each in a process of its own."""
    if not path.exists():
        make_table(str(path), files)
    results: dict[str, list[dict[str, float]]] = {"steps": [], "scanner": []}
    for how in ["steps"] * runs + ["scanner"]:
        command = [sys.executable, "-m", "tests.bench.plan", "--measure", str(path), "--how", how]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results[how].append(json.loads(done.stdout))
        _show(files, results[how][-1])
    medians = {name: median(one[name] for one in results["steps"]) for name in ("seconds", "cpu", "peak_mb")}
    return {"files": files, **medians, **results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, action="append", help="live files (may be repeated)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--keep", help="directory to keep the tables in, and find them again")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--how", default="steps", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        run = measure if options.how == "steps" else measure_scanner
        print(json.dumps(run(options.measure)))
        return
    root = Path(options.keep or tempfile.mkdtemp(prefix="lakecore-plan-"))
    measured = conditions()
    try:
        sizes = options.files or [100_000, 1_000_000]
        cases = [_plans(root / f"files-{files}", files, options.runs) for files in sizes]
        write_figures("plan", measured, {"runs": options.runs, "cases": cases}, options.figures)
    finally:
        if not options.keep:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
