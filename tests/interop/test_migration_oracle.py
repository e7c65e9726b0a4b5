"""Directories as Hive writes them become tables: Java reads the same rows, and the source stays as it is."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    UnsupportedError,
)
from lakecore.fs.local import LocalFileIO
from lakecore.jobs import compact
from lakecore.jobs.definitions.migration import MigrateDatabase, MigrateTable
from lakecore.jobs.migration import migrate_database, migrate_table
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.oracle import Oracle, findings

ROWS = [
    {"k": 1, "v": "a", "d": datetime.date(2024, 1, 1), "l": [1, 2], "dt": "2024-01-01", "hh": 1},
    {"k": 2, "v": None, "d": None, "l": None, "dt": "2024-01-01", "hh": 2},
    {"k": 3, "v": "é", "d": datetime.date(1969, 1, 1), "l": [], "dt": None, "hh": 2},
    {"k": 4, "v": "a/b", "d": None, "l": [None], "dt": "x=y z", "hh": 2},
]
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "d": pa.date32(), "l": pa.list_(pa.int32())})
Lines = list[tuple[Any, ...]]


def write_parquet(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path)


def write_orc(path: Path, rows: pa.Table) -> None:
    orc.write_table(rows, str(path))


def hive_directory(root: Path, write: Callable[[Path, pa.Table], None]) -> None:
    for number, row in enumerate(ROWS):
        names = {None: "__HIVE_DEFAULT_PARTITION__", "x=y z": "x%3Dy%20z"}
        directory = root / f"dt={names.get(row['dt'], row['dt'])}" / f"hh={row['hh']}"
        directory.mkdir(parents=True, exist_ok=True)
        write(directory / f"00000{number}_0", pa.Table.from_pylist([row], schema=SCHEMA))
        (directory / "_SUCCESS").write_text("x")
        (directory / ".hidden").write_text("x")
        (directory / "empty").write_text("")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def lines(rows: list[dict[str, Any]]) -> Lines:
    return sorted((r["k"], r["v"], str(r["d"]), r["l"], r["dt"], r["hh"]) for r in rows)


def java_lines(oracle: Oracle, warehouse: Path, table: str) -> Lines:
    return lines(oracle.call("read", warehouse, table))


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    found = lakecore.load_catalog(tmp_path / "wh", create_warehouse=True)
    assert isinstance(found, FilesystemCatalog)
    return found


def job(tmp_path: Path, **more: Any) -> MigrateTable:
    return MigrateTable(source=str(tmp_path / "hive"), target="d.t", partition_types={"hh": "INT"}, **more)


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_parquet, write_orc], ids=["parquet", "orc"])
def test_java_reads_a_migrated_table(
    oracle: Oracle, tmp_path: Path, lake: FilesystemCatalog, write: Callable[[Path, pa.Table], None]
) -> None:
    hive_directory(tmp_path / "hive", write)
    before = contents(tmp_path / "hive")
    assert migrate_table.run(job(tmp_path, dry_run=True), lake).files == 4
    assert lake.list_databases() == []
    report = migrate_table.run(job(tmp_path), lake)
    assert (report.files, report.snapshots) == (4, (1,))
    assert contents(tmp_path / "hive") == before
    table = lake.load_table("d.t")
    assert table.schema.partition_keys == ("dt", "hh")
    assert lines(table.scan().to_arrow().to_pylist()) == lines(ROWS)
    assert java_lines(oracle, tmp_path / "wh", "d.t") == lines(ROWS)
    assert table.scan(where="hh = 2 and dt = '2024-01-01'").to_arrow()["k"].to_pylist() == [2]
    assert findings(oracle.fsck(tmp_path / "wh", "d.t")) == set()
    table.write(pa.Table.from_pylist(ROWS, schema=table.scan().schema))
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL, proof=compact.ProofMode.FULL), lake)
    assert java_lines(oracle, tmp_path / "wh", "d.t") == sorted(lines(ROWS) * 2)


@pytest.mark.slow
def test_java_reads_migrated_avro_files(oracle: Oracle, tmp_path: Path, lake: FilesystemCatalog) -> None:
    oracle.create(
        tmp_path / "other", "d.s", {"columns": ["k INT", "v STRING"], "options": {"file.format": "avro"}}
    )
    oracle.write(tmp_path / "other", "d.s", [{"k": 1, "v": "a"}, {"k": 2, "v": None}])
    (tmp_path / "hive").mkdir()
    [file] = (tmp_path / "other/d.db/s/bucket-0").glob("*.avro")
    (tmp_path / "hive" / "part-0").write_bytes(file.read_bytes())
    migrate_table.run(MigrateTable(source=str(tmp_path / "hive"), target="d.t"), lake)
    expected = oracle.read(tmp_path / "other", "d.s")
    assert oracle.read(tmp_path / "wh", "d.t") == expected


def test_a_database_is_migrated_table_by_table(tmp_path: Path, lake: FilesystemCatalog) -> None:
    for name in ("a", "b"):
        (tmp_path / "hive" / name).mkdir(parents=True)
        write_parquet(tmp_path / "hive" / name / "x", pa.table({"k": [1, 2]}))
    (tmp_path / "hive" / "c").mkdir()
    (tmp_path / "hive" / "c" / "text").write_text("no table")
    report = migrate_database.run(MigrateDatabase(source=str(tmp_path / "hive"), target="d"), lake)
    assert report.names == ("d.a", "d.b")
    assert "d.c was not migrated" in report.notes[0]
    assert lake.list_tables("d") == ["a", "b"]


def test_what_is_no_directory_of_a_table_is_refused(tmp_path: Path, lake: FilesystemCatalog) -> None:
    root = tmp_path / "hive"
    cases: list[tuple[Callable[[], object], type[LakeError], str]] = [
        (lambda: (root / "text").write_text("text"), UnsupportedError, "neither parquet, orc nor avro"),
        (lambda: (root / "link").symlink_to("/etc/passwd"), UnsupportedError, "symbolic link"),
        (lambda: (root / "dir").mkdir() or write_parquet(root / "dir" / "x", pa.table({"k": [1]})), InvalidInputError, "COLUMN=VALUE"),
        (lambda: (write_parquet(root / "a", pa.table({"k": [1]})), write_parquet(root / "b", pa.table({"k": ["x"]}))), InvalidInputError, "its columns are not those"),
        (lambda: (root / "k=1").mkdir() or write_parquet(root / "k=1" / "x", pa.table({"k": [1]})), InvalidInputError, "of the files and of the partitions"),
        (lambda: ((root / "p=1").mkdir(), write_parquet(root / "p=1" / "x", pa.table({"k": [1]})), write_parquet(root / "y", pa.table({"k": [1]}))), InvalidInputError, "its partition has other columns"),
    ]  # fmt: skip
    for make, error, text in cases:
        root.mkdir()
        make()
        with pytest.raises(error, match=text):
            migrate_table.run(MigrateTable(source=str(root), target="d.t"), lake)
        assert lake.list_databases() == []
        root.rename(tmp_path / f"old-{len(list(tmp_path.iterdir()))}")
    hive_directory(root, write_parquet)
    for more in (
        {"partition_types": {"x": "INT"}},
        {"partition_types": {"hh": "ARRAY<INT>"}},
        {"table_options": {"bucket": "2"}},
    ):
        with pytest.raises(InvalidInputError):
            migrate_table.run(replace(job(tmp_path), **more), lake)
    with pytest.raises(InvalidInputError):
        migrate_table.run(replace(job(tmp_path), partition_types={"dt": "DATE"}), lake)
    assert not lake.table_exists("d.t"), "a value that does not fit leaves no table"
    lake.create_table("d.t", {"columns": ["x INT"]})
    with pytest.raises(AlreadyExistsError):
        migrate_table.run(job(tmp_path), lake)
    assert lake.table_exists("d.t")


MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_storage_that_fails_leaves_no_table_or_one_to_complete(tmp_path: Path, mode: FaultMode) -> None:
    hive_directory(tmp_path / "hive", write_parquet)
    before = contents(tmp_path / "hive")
    for number in itertools.count(1 + 3 * MODES.index(mode), 12):  # neighbours fail in other modes
        lake = lakecore.load_catalog(tmp_path / f"wh{number}", create_warehouse=True)
        assert isinstance(lake, FilesystemCatalog)
        storage = FaultyFileIO(LocalFileIO(), number, mode)
        try:
            migrate_table.run(job(tmp_path), replace(lake, file_io=storage))
        except LakeError:
            assert storage.fired
        if not lake.table_exists("d.t") or lake.load_table("d.t").latest_snapshot() is None:
            migrate_table.run(job(tmp_path), lake)
        assert lines(lake.load_table("d.t").scan().to_arrow().to_pylist()) == lines(ROWS)
        assert contents(tmp_path / "hive") == before
        if not storage.fired:
            break
