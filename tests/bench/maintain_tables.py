"""Tables for the benches of maintenance: real metadata by lakecore's own encoders, data files without a byte.

Expiring and searching never open a data file, so nothing of what is measured is missing; the tables are made once and
kept in `.cache/bench`.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.commit.request import CommitRequest
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, FileSource, SimpleStats
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.table import Table
from tests.bench.tables import CACHE

__all__ = ["CHURN", "make", "make_history", "touch_files_of", "warehouse_of", "working_copy"]

CHURN = 50
"""Files that each commit of the long history replaces."""
MOST_SNAPSHOTS = 2000
"""Longer histories (`make_history`) replace more files in a commit."""
_LINKS = 50_000
"""Names of one file; ext4 allows 65,000."""
STAYING = 1000
"""Files that none of them touches."""
BUCKETS, PARTITIONS, ORPHANS = 10, 100, 100
_COLUMNS = [
    "id BIGINT NOT NULL",
    "name STRING",
    "amount DECIMAL(12, 2)",
    "ts TIMESTAMP(3)",
    "dt STRING NOT NULL",
]


def warehouse_of(snapshots: int, files: int) -> Path:
    return CACHE / f"maintain-{snapshots}-{files}"


def make(snapshots: int, files: int) -> Path:
    """The warehouse with `db.history` and `db.listed`, each made once."""
    warehouse = warehouse_of(snapshots, files)
    lake = load_catalog(str(warehouse), create_warehouse=True, **{"local.fsync": "false"})
    for name, build, count in (("history", _history, snapshots), ("listed", _listed, files)):
        done = warehouse / f"{name}.complete"
        if done.exists():
            continue
        started = time.perf_counter()
        shutil.rmtree(warehouse / "db.db" / name, ignore_errors=True)
        build(lake, count)
        done.touch()
        print(f"made {name} ({count:,}) in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return warehouse


@contextmanager
def working_copy(warehouse: Path, table: str) -> Iterator[Path]:
    """A copy of this process alone: data files are hard links, what may be written over in place is not."""
    copy = warehouse / "db.db" / f"{table}_copy_{os.getpid()}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(warehouse / "db.db" / table, copy, copy_function=_copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def _copy(source: str, target: str) -> None:
    if "/bucket-" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _create(lake: FilesystemCatalog, name: str, partitions: Sequence[str], bucket: int) -> Table:
    options = {"bucket": str(bucket), "bucket-key": "id"} if bucket > 0 else {"bucket": "-1"}
    options["lakecore.commit.settle-time"] = "1 ms"
    definition = {"columns": _COLUMNS, "partitionKeys": list(partitions), "options": options}
    return lake.create_table(f"db.{name}", definition)


def make_history(warehouse: Path, files: int) -> Path:
    """A warehouse with `db.history` alone, whose commits replace so many files in all."""
    shutil.rmtree(warehouse, ignore_errors=True)
    churn = max(CHURN, files // MOST_SNAPSHOTS)
    lake = load_catalog(str(warehouse), create_warehouse=True, **{"local.fsync": "false"})
    _history(lake, files // churn, churn)
    return warehouse


def touch_files_of(warehouse: Path, name: str) -> None:
    """Give each live file of a table a name in its directory, and one in a hundred a second one that no commit has. All
    are names of a few empty files.
    """
    lake = load_catalog(str(warehouse), create_warehouse=False)
    table = lake.load_table(name)
    empty, count = Path(table.path).parent / "empty", 0
    (key,) = table.schema.partition_type.fields
    for plan in table.scan().plans():
        for partition, bucket, names in plan.names():
            (value,) = decode_row(partition, table.schema.partition_type)
            folder = f"{table.path}/{key.name}={value}/bucket-{bucket}"
            os.makedirs(folder, exist_ok=True)
            for file in names:
                for path in (file.decode(), f"data-{count}.parquet")[: 1 + (count % 100 == 0)]:
                    if count % _LINKS == 0:
                        empty.unlink(missing_ok=True)
                        empty.touch()
                    os.link(empty, f"{folder}/{path}")
                    count += 1
    empty.unlink(missing_ok=True)


def _history(lake: FilesystemCatalog, snapshots: int, churn: int = CHURN) -> None:
    """One commit of files that stay, then as many as asked for that each replace the same number of files."""
    table = _create(lake, "history", (), -1)
    commit = table._committer().commit
    churning = _files(table, 0, churn)
    first = (*_files(table, 1, STAYING), *churning)
    _touch(Path(table.path) / "bucket-0", first)
    message = CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1)
    commit([replace(message, new_files=first)], CommitRequest(user="bench", identifier=BATCH_IDENTIFIER))
    for number in range(snapshots):
        fresh = _files(table, 2 + number, churn)
        _touch(Path(table.path) / "bucket-0", fresh)
        change = replace(message, compact_before=churning, compact_after=fresh)
        commit([change], CommitRequest(user="bench", identifier=BATCH_IDENTIFIER))
        churning = fresh


def _listed(lake: FilesystemCatalog, files: int) -> None:
    """One commit of many files over partitions and buckets; every hundredth file on disk is in no commit."""
    table = _create(lake, "listed", ("dt",), BUCKETS)
    each = files // (PARTITIONS * BUCKETS)
    messages = []
    for number in range(PARTITIONS * BUCKETS):
        day, bucket = f"2026-{number // BUCKETS:04d}", number % BUCKETS
        found = _files(table, number, each)
        _touch(Path(table.path) / f"dt={day}" / f"bucket-{bucket}", found)
        message = CommitMessage(
            partition=encode_row((day,), table.schema.partition_type), bucket=bucket, total_buckets=BUCKETS
        )
        messages.append(replace(message, new_files=found[: -max(each // ORPHANS, 1)]))
    table._committer().commit(messages, CommitRequest(user="bench", identifier=BATCH_IDENTIFIER))


def _touch(folder: Path, files: Sequence[DataFile]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.close(os.open(folder / file.file_name, os.O_CREAT | os.O_WRONLY, 0o644))


def _files(table: Table, seed: int, count: int) -> tuple[DataFile, ...]:
    """As an append writer describes them: statistics of every column."""
    draw = random.Random(seed)
    kind = table.schema.row_type
    out = []
    for number in range(count):
        low = draw.randrange(10**9)
        stamp = 1_700_000_000_000_000_000 + low * 1_000_000
        lowest = (low, f"customer {low:010d}", None, stamp, "2026-0000")
        highest = (low + 9999, f"customer {low + 9999:010d}", None, stamp + 9_999_000_000, "2026-9999")
        stats = SimpleStats(encode_row(lowest, kind), encode_row(highest, kind), (0, 7, 10_000, 0, 0))
        out.append(
            DataFile(
                file_name=f"data-{uuid.UUID(int=draw.getrandbits(128))}-{number % 7}.parquet",
                file_size=draw.randrange(4 << 20, 128 << 20),
                row_count=10_000,
                min_key=EMPTY_ROW,
                max_key=EMPTY_ROW,
                value_stats=stats,
                min_sequence_number=0,
                max_sequence_number=9999,
                schema_id=0,
                level=0,
                creation_time=1_795_000_000_000,
                delete_row_count=0,
                file_source=FileSource.APPEND,
            )
        )
    return tuple(out)
