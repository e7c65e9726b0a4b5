"""The cases of `scale.py`, each in a process of its own, and what they do: plans, commits, expiry, orphans, databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

__all__ = ["CASES", "measure"]

SHARED = 100
"""Tables of the measurement that divides the time of a table."""


def measure(case: Callable[[str], dict[str, Any]], path: str) -> dict[str, Any]:
    """One case in this process: its seconds, CPU seconds, and the peak of the process."""
    # what users have imported before they call, so that it does not count
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


def _lake(path: str) -> tuple[Any, str]:
    from lakecore import load_catalog

    warehouse, _, table = path.rpartition(":")
    return load_catalog(warehouse, create_warehouse=False, **{"local.fsync": "false"}), f"db.{table}"


def _plan(path: str) -> dict[str, Any]:
    """All plans of a scan, one after the other: of more than a million files there are several."""
    lake, name = _lake(path)
    cpu, splits, begun = [], 0, time.process_time()
    for plan in lake.load_table(name).scan().plans():
        splits += len(plan)
        del plan
        cpu.append(round(time.process_time() - begun, 3))
        begun = time.process_time()
    return {"splits": splits, "cpu_of_plans": cpu}


def _commit(path: str) -> dict[str, Any]:
    """One commit that adds a file to those that are there."""
    return _commit_with(path, {})


def _commit_merge(path: str) -> dict[str, Any]:
    """The same with a size of manifests that all are below, so that the commit writes all of them anew."""
    options = {"manifest.target-file-size": "12 mb", "manifest.full-compaction-threshold-size": "1 kb"}
    return _commit_with(path, options)


def _commit_with(path: str, options: dict[str, str]) -> dict[str, Any]:
    from lakecore.commit.request import CommitRequest
    from lakecore.metadata.commit_message import CommitMessage
    from lakecore.metadata.manifest.data_file import DataFile, FileSource, SimpleStats
    from lakecore.row.binary_row import encode_row

    lake, name = _lake(path)
    table = lake.load_table(name)
    if options:
        table = table.with_options(options)
    schema = table.schema
    buckets = int(schema.options["bucket"])
    kinds = schema.key_type, schema.row_type
    key = [encode_row((10**15 + end,), kinds[0]) for end in (0, 999)]
    nothing = tuple(None for _ in kinds[1].fields)
    row = encode_row(nothing, kinds[1])
    file = DataFile(
        file_name=f"data-{time.time_ns():032x}-0.parquet", file_size=1 << 24, row_count=1000,
        min_key=key[0], max_key=key[1], key_stats=SimpleStats(key[0], key[1], (0,)),
        value_stats=SimpleStats(row, row, tuple(1000 for _ in nothing)), min_sequence_number=10**15,
        max_sequence_number=10**15 + 999, schema_id=0, level=5, creation_time=1_795_000_000_000,
        delete_row_count=0, file_source=FileSource.COMPACT,
    )  # fmt: skip
    partition = encode_row(("day-000001",), schema.partition_type)
    message = CommitMessage(partition=partition, bucket=1, total_buckets=buckets)
    before = table.latest_snapshot()
    table._committer().commit(
        [replace(message, new_files=(file,))], CommitRequest(user="bench", identifier=time.time_ns())
    )
    after = table.latest_snapshot()
    assert before is not None
    assert after is not None
    assert after.id == before.id + 1
    lists = table._stores.manifests.data_manifests
    rewritten = {line.file_name for line in lists(after)} - {line.file_name for line in lists(before)}
    return {"new_manifests": len(rewritten)}


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


def _shares(path: str) -> dict[str, Any]:
    """The CPU seconds of the units, where one table is compacted after the other."""
    from lakecore.executor import SerialExecutor
    from lakecore.jobs import compact_database

    class Timed(SerialExecutor):
        cpu = 0.0

        def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
            def timed(task: Any) -> Any:
                begun = time.process_time()
                try:
                    return function(task)
                finally:
                    self.cpu += time.process_time() - begun

            return super().run(timed, tasks)

    executor = Timed()
    job = compact_database.Job(max_concurrent_tables=1)
    report = compact_database.run(job, _lake(path)[0], executor)
    assert not report.failed, report.failed[0].error
    return {"tables": len(report.changed), "units": round(executor.cpu, 3)}


CASES: dict[str, Callable[[str], dict[str, Any]]] = {
    "plan": _plan,
    "commit": _commit,
    "commit_merge": _commit_merge,
    "expire": _expire,
    "orphans": _orphans,
    "compact_database_dry_run": _database_dry_run,
    "compact_database": _database,
    "shares": _shares,
}
