"""Benchmark: how time and memory grow with files and tables: plans, commits, expiry, orphans, whole databases.

    .venv/bin/python -m tests.bench.scale [--files 2000,10000,100000,1000000] [--tables 10,100,1000] [--figures DIRECTORY]

Files are metadata by lakecore's own encoders (`tests/bench/plan.py`, `maintain_tables.py`); tables of a database are
copies of one of six small files. Each measurement runs in a process of its own; its seconds and CPU seconds begin after
the imports. Expiry stops at `--most-expired` files, because a long history takes long to make. The schedule of a
cluster is worked out from the CPU seconds of the tables and of their plans, not measured. The picture is `scale.svg`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.scale_picture import picture
from tests.bench.tables import CACHE

EXECUTORS = (1, 8, 64)
SCHEDULED = (100, 1_000, 10_000)
_TABLES = "scale-tables"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--files", default="2000,10000,100000,1000000", help="live files of a table, at least 2000"
    )
    parser.add_argument("--tables", default="10,100,1000", help="tables of a database")
    parser.add_argument("--most-expired", type=int, default=100_000, help="files of the longest history")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        name, path = options.measure
        print(json.dumps(measure(CASES[name], path)))
        return
    measured = conditions()
    curves: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for files in _sizes(options.files):
        _of_files(files, options.most_expired, curves)
    for tables in _sizes(options.tables):
        _of_tables(tables, curves)
    schedule = schedules(curves["compact_database"][-1], curves["compact_database_dry_run"][-1])
    options.figures.mkdir(parents=True, exist_ok=True)
    (options.figures / "scale.svg").write_text(picture(curves))
    write_figures("scale", measured, {"curves": curves, "schedule": schedule}, options.figures)


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def measure(case: Callable[[str], dict[str, Any]], path: str) -> dict[str, Any]:
    """One case in this process: its seconds, CPU seconds, and the peak of the process."""
    import lakecore.jobs.compact_database
    import lakecore.jobs.expire_snapshots
    import lakecore.jobs.remove_orphan_files  # noqa: F401
    from lakecore.types.pandas_probe import skip_pandas

    skip_pandas()
    started, cpu = time.perf_counter(), time.process_time()
    facts = case(path)
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "cpu": round(time.process_time() - cpu, 3),
        "peak_bytes": _peak_bytes(),
        **facts,
    }


def _peak_bytes() -> int:
    """The peak of this program; `ru_maxrss` would have that of the parent, which is kept when a process is started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def schedules(run: dict[str, Any], dry_run: dict[str, Any]) -> list[dict[str, float]]:
    """When so many tables are done on so many executors, if each takes the CPU seconds of the measured ones.

    The driver plans one table after another; all else of a table is its unit, commit and proof included.
    """
    plan = dry_run["cpu"] / dry_run["size"]
    unit = max(run["cpu"] / run["size"] - plan, 0.0)
    return [
        {
            "tables": tables,
            "executors": executors,
            "plan_seconds": round(plan, 4),
            "unit_seconds": round(unit, 4),
            "seconds": round(makespan([unit] * tables, executors, plan), 1),
        }
        for tables in SCHEDULED
        for executors in EXECUTORS
    ]


def makespan(units: Sequence[float], executors: int, plan: float) -> float:
    """The end of the last unit: the executor that is free first takes the next one as soon as it is planned.

    `units`: seconds of each; `plan`: seconds of each plan, which follow one another.
    """
    free = [0.0] * executors
    for number, unit in enumerate(units):
        heapq.heapreplace(free, max(free[0], (number + 1) * plan) + unit)
    return max(free)


def _of_files(files: int, most_expired: int, curves: dict[str, list[dict[str, Any]]]) -> None:
    from tests.bench.maintain_tables import CHURN, make, working_copy
    from tests.bench.plan import make_table

    planned = CACHE / f"scale-plan-{files}"
    if not planned.exists():
        (planned / "db.db").mkdir(parents=True)
        make_table(str(planned / "db.db" / "planned"), files)
    _add(curves, "plan", files, f"{planned}:planned")
    copy = planned / "db.db" / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(planned / "db.db" / "planned", copy)
    _add(curves, "commit", files, f"{planned}:copy")
    shutil.rmtree(copy)
    listed = make(min(files, most_expired) // CHURN, files)
    _add(curves, "orphans", files, f"{listed}:listed")
    if files <= most_expired:
        with working_copy(listed, "history") as copy:
            _add(curves, "expire", files, f"{listed}:{copy.name}")


def _of_tables(tables: int, curves: dict[str, list[dict[str, Any]]]) -> None:
    warehouse = CACHE / _TABLES / str(tables)
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    _small_table(warehouse)
    first = warehouse / "db.db" / "t00000"
    for number in range(1, tables):
        shutil.copytree(first, first.with_name(f"t{number:05d}"))
    for case in ("compact_database_dry_run", "compact_database"):
        _add(curves, case, tables, f"{warehouse}:")
    shutil.rmtree(warehouse)


def _small_table(warehouse: Path) -> None:
    """A table of six runs in one bucket, below 1 MB."""
    import pyarrow as pa

    from lakecore import load_catalog

    lake = load_catalog(str(warehouse), create_warehouse=False, **{"local.fsync": "false"})
    lake.create_database("db")
    options = {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms"}
    lake.create_table(
        "db.t00000", {"columns": ["k BIGINT NOT NULL", "s STRING"], "primaryKeys": ["k"], "options": options}
    )
    for first in range(6):
        keys = range(first, 6000, 2)
        rows = pa.table({"k": pa.array(keys, pa.int64()), "s": [f"text {key % 97}" for key in keys]})
        lake.load_table("db.t00000").upsert(rows)


def _add(curves: dict[str, list[dict[str, Any]]], case: str, size: int, path: str) -> None:
    command = [sys.executable, "-m", "tests.bench.scale", "--measure", case, path]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = {"size": size, **json.loads(done.stdout), "load_after": round(os.getloadavg()[0], 1)}
    curves[case].append(found)
    print(case, found, file=sys.stderr, flush=True)


def _lake(path: str) -> tuple[Any, str]:
    from lakecore import load_catalog

    warehouse, _, table = path.rpartition(":")
    return load_catalog(warehouse, create_warehouse=False, **{"local.fsync": "false"}), f"db.{table}"


def _plan(path: str) -> dict[str, Any]:
    lake, name = _lake(path)
    plan = lake.load_table(name).scan().plan()
    return {"splits": len(plan)}


def _commit(path: str) -> dict[str, Any]:
    """One commit that adds a file to those that are there."""
    from dataclasses import replace

    from lakecore.commit.request import CommitRequest
    from lakecore.metadata.commit_message import CommitMessage
    from tests.bench.plan import BUCKETS, _files

    lake, name = _lake(path)
    table = lake.load_table(name)
    partition, bucket, file = next(_files(10**9, 1))
    message = CommitMessage(partition=partition, bucket=bucket, total_buckets=BUCKETS)
    before = table.latest_snapshot()
    table._committer().commit(
        [replace(message, new_files=(file,))], CommitRequest(user="bench", identifier=time.time_ns())
    )
    after = table.latest_snapshot()
    assert before is not None
    assert after is not None
    assert after.id == before.id + 1
    return {}


def _expire(path: str) -> dict[str, Any]:
    from lakecore.jobs import expire_snapshots

    lake, name = _lake(path)
    now = int(time.time() * 1000)
    job = expire_snapshots.Job(table=name, retain_max=1, retain_min=1, older_than_ms=now, max_deletes=10**9)
    return {"snapshots": len(expire_snapshots.run(job, lake).snapshots)}


def _orphans(path: str) -> dict[str, Any]:
    from lakecore.jobs import remove_orphan_files

    lake, name = _lake(path)
    job = remove_orphan_files.Job(table=name, older_than_ms=int(time.time() * 1000) - 1, dry_run=True)
    return {"orphans": remove_orphan_files.run(job, lake).files}


def _database_dry_run(path: str) -> dict[str, Any]:
    from lakecore.jobs import compact_database

    report = compact_database.run(compact_database.Job(dry_run=True), _lake(path)[0])
    return {"tables": len(report.changed)}


def _database(path: str) -> dict[str, Any]:
    from lakecore.jobs import compact_database

    report = compact_database.run(compact_database.Job(), _lake(path)[0])
    assert not report.failed, report.failed[0].error
    return {"tables": len(report.changed)}


CASES: dict[str, Callable[[str], dict[str, Any]]] = {
    "plan": _plan,
    "commit": _commit,
    "expire": _expire,
    "orphans": _orphans,
    "compact_database_dry_run": _database_dry_run,
    "compact_database": _database,
}


if __name__ == "__main__":
    main()
