"""A disk that fills up midway: a clear error, the table stays readable, what was half written is removed."""

from __future__ import annotations

import errno
import json
import multiprocessing
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import LakeError, UnavailableError
from lakecore.fs.failures import translate
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.spark.data_source.batch_commits import buckets_at_start, commit_batch, stream_user
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.fault_fs import FaultyFileIO
from tests.support.handles import with_stores
from tests.support.lake import append_table, key_table, memory_catalog, put, rows_of

KEYED, APPEND = "d.k", "d.a"
CAP_SYS_ADMIN = 1 << 21
tables = pytest.mark.parametrize("name", [KEYED, APPEND])


class SmallDisk(FaultyFileIO):
    """Has room for so many bytes more."""

    def __init__(self, inner: Any, room: int) -> None:
        super().__init__(inner)
        self.room = room

    def write_new(self, path: str, data: bytes) -> None:
        self._take(path, data)
        super().write_new(path, data)

    def publish(self, path: str, data: bytes) -> bool:
        self._take(path, data)
        return super().publish(path, data)

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if name == "write":
            self._take(path, bytes(100))
        return super().operation(name, path, effect, torn)

    def _take(self, path: str, data: bytes) -> None:
        self.room -= len(data)
        if self.room < 0:
            raise translate(OSError(errno.ENOSPC, "No space left on device"), "write", path)


def two_tables(catalog: FilesystemCatalog, **options: str) -> FilesystemCatalog:
    """A keyed and an append table, some commits each."""
    columns = ("k INT", "v STRING")
    for table in (key_table(catalog, columns, **options), append_table(catalog, columns, **options)):
        put(table, *([{"k": k, "v": f"{n}.{k}"} for k in range(n, n + 4)] for n in range(3)))
    return catalog


def compact(catalog: FilesystemCatalog, name: str) -> Any:
    return run(Job(table=name, strategy=Strategy.FULL, commit_user="job"), catalog)


def check(table: Table, expected: list[Any]) -> None:
    assert rows_of(table) == expected
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=SystemClock().now_ms(), read_data=True)
    assert report.findings == ()


@tables
@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("room", [0, 150, 600, 1500, 2500])
def test_a_disk_with_little_room(name: str, kind: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first byte, in the data file, in the manifests; and nothing else is said about it."""
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    catalog = two_tables(memory_catalog("small-disk"), file__format=kind)
    table = catalog.load_table(name)
    before = rows_of(table)
    storage = SmallDisk(catalog.file_io, room)
    with pytest.raises(UnavailableError, match="the disk is full; free space or choose another warehouse"):
        put(with_stores(table, file_io=storage), [{"k": 1, "v": "x"}])
    check(table, before)
    storage.room = room
    with pytest.raises(UnavailableError, match="the disk is full"):
        compact(replace(catalog, file_io=storage), name)
    check(table, before)
    assert compact(catalog, name).error is None
    check(table, before)
    assert said == []


@pytest.mark.parametrize(
    "definition",
    [
        {"columns": ["k INT", "v BIGINT"]},
        {
            "columns": ["k INT", "v BIGINT"],
            "primaryKeys": ["k"],
            "options": {
                "bucket": "2",
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                "full-compaction.delta-commits": "1",
            },
        },
    ],
    ids=["append", "summed and compacted"],
)
def test_a_disk_that_is_full_in_an_epoch_of_a_stream(definition: dict[str, Any]) -> None:
    """The epoch is run again when there is room, as Spark does: its rows are in the table once."""
    table = memory_catalog("small-disk").create_table("d.t", definition)

    def epoch(handle: Table, number: int) -> None:
        rows = pa.table({"k": pa.array(range(5), pa.int32()), "v": pa.array([10**number] * 5)})
        write = handle.new_stream_write(stream_user("q")).with_buckets_of(buckets_at_start(handle))
        write.write(rows)
        commit_batch(handle, number, [write.prepare_commit(number)])

    said: list[str] = []
    for number, room in enumerate(range(0, 12_000, 700)):
        storage = SmallDisk(table._stores.file_io, room)
        try:
            epoch(with_stores(table, file_io=storage), number)
        except UnavailableError as err:
            said.append(str(err))
        epoch(table, number)
        amounts = [10**done for done in range(number + 1)]
        expected = [
            (k, v) for k in range(5) for v in (amounts if not table.schema.primary_keys else [sum(amounts)])
        ]
        assert rows_of(table) == sorted(expected, key=repr), f"room for {room} bytes"
    assert len(said) > 4
    assert all("the disk is full; free space" in text for text in said), said
    check(table, rows_of(table))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB of its own."""
    where = tmp_path / "disk"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", where], check=True)
    yield where
    subprocess.run(["umount", where], check=True)


def large(number: int, rows: int = 20_000) -> pa.Table:
    """Some 0.7 MB that do not compress, under keys of their own."""
    noise = np.random.default_rng(number).bytes(32 * rows).hex()
    values = [noise[64 * i : 64 * (i + 1)] for i in range(rows)]
    return pa.table({"k": pa.array(range(number * rows, (number + 1) * rows), pa.int32()), "v": values})


@pytest.mark.slow
@tables
def test_a_real_disk_that_is_full(name: str, full_disk: Path) -> None:
    catalog = two_tables(load_catalog(str(full_disk)))
    table = catalog.load_table(name)
    for number in range(3):
        table.write(large(number))
    before = rows_of(table)
    free = shutil.disk_usage(full_disk).free
    for action in (lambda: table.write(large(3, 40_000)), lambda: compact(catalog, name)):
        with pytest.raises(UnavailableError) as caught:
            action()
        assert "the disk is full; free space" in str(caught.value)
        assert table.path in str(caught.value)
        assert free - shutil.disk_usage(full_disk).free < 50_000
    check(table, before)
    table.overwrite(pa.table({"k": pa.array([1], pa.int32()), "v": ["small"]}))
    check(table, [(1, "small")])


def may_mount() -> bool:
    """The right to mount is a bit of the process's capabilities."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return bool(effective & CAP_SYS_ADMIN) and shutil.which("mount") is not None


test_a_real_disk_that_is_full.__test__ = may_mount()  # type: ignore[attr-defined] # else the next one must do


@pytest.mark.slow
@tables
def test_a_limit_on_the_size_of_files(name: str, tmp_path: Path) -> None:
    """`ulimit -f`: the kernel refuses writes beyond it, for any user."""
    catalog = two_tables(load_catalog(str(tmp_path / "lake"), create_warehouse=True))
    table = catalog.load_table(name)
    for number in range(3):
        table.write(large(number))
    before = rows_of(table)
    answers = tmp_path / "answers"
    process = multiprocessing.get_context("spawn").Process(
        target=_limited, args=(catalog, name, str(answers))
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0
    write, compaction = json.loads(answers.read_text())
    for answer in (write, compaction):
        assert answer.startswith("UnavailableError: cannot write ")
        assert "ulimit -f" in answer
    check(table, before)


def _limited(catalog: FilesystemCatalog, name: str, answers: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    table = catalog.load_table(name)
    texts = []
    for action in (lambda: table.write(large(3, 40_000)), lambda: compact(catalog, name)):
        try:
            action()
        except LakeError as err:
            texts.append(f"{type(err).__name__}: {err}")
    Path(answers).write_text(json.dumps(texts))
