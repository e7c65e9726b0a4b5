"""Format tables of a Hive catalog that lakecore drops, renames and restores, beside Java's HiveCatalog on one metastore."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.names import TableName
from lakecore.errors import AlreadyExistsError, CorruptDataError, LakeError, NotFoundError, UnsupportedError
from tests.support.cut_proxy import CutProxy, cut_proxy
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.hive_metastore import HiveServer, opened
from tests.support.oracle import OracleError

pytestmark = pytest.mark.slow

STRIDE = int(os.environ.get("LAKECORE_HIVE_STRIDE", "17"))  # 1: each request and each operation fails once
PARTED: dict[str, Any] = {
    "columns": ["k INT", "v STRING", "p STRING"],
    "partitionKeys": ["p"],
    "options": {"type": "format-table", "file.format": "csv"},
    "comment": "words",
}
LINES = {"a": "1,x\n2,y\n", "b": "3,\n"}
ROWS = [(1, "x", "a"), (2, "y", "a"), (3, None, "b")]


@pytest.fixture
def database(hive: HiveServer) -> Iterator[HiveCatalog]:
    catalog = opened(hive)
    cleared(hive, catalog)
    catalog.create_database("g")
    yield catalog
    cleared(hive, catalog)
    catalog.close()


def cleared(hive: HiveServer, catalog: HiveCatalog) -> None:
    if "g" in catalog.list_databases():
        for name in catalog._metastore.table_names("g"):
            catalog._metastore.connection.change("drop", "drop_table", "g", name, False)
        catalog._metastore.drop_database("g")
    for left in ("g.db", ".lakecore"):
        shutil.rmtree(hive.warehouse / left, ignore_errors=True)


def java(hive: HiveServer, *words: str) -> None:
    hive.oracle.call("catalog", hive.java(), *words)


def fill(path: Path) -> None:
    for part, lines in LINES.items():
        (path / f"p={part}").mkdir(parents=True, exist_ok=True)
        (path / f"p={part}" / "data.csv").write_text(lines)


def rows(catalog: HiveCatalog, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in catalog.load_table(name).scan().to_arrow().to_pylist())


def rows_of_java(hive: HiveServer, name: str) -> int:
    return len(hive.oracle.read(hive.java(), name))


def entry(catalog: HiveCatalog, name: str, **plain: str) -> str:
    """The whole entry and those of its partitions, without times and the counts of the metastore."""
    record = catalog._metastore.table(TableName.parse(name))
    listed = catalog._lists.of_name(TableName.parse(name), ("p",)).records()
    timeless = [{**vars(one), "createTime": 0, "lastAccessTime": 0} for one in (record, *listed)]
    text = re.sub(
        r"'(transient_lastDdlTime|totalSize|numFiles|last_modified_\w+)': '[^']*',? ?", "", repr(timeless)
    )
    for word, other in plain.items():
        text = text.replace(word, other)
    return text.replace(", }", "}")


def add_partition(catalog: HiveCatalog, name: str, part: str, location: str | None = None) -> None:
    """Add a partition as Hive does."""
    types, record = thrift_types(), catalog._metastore.table(TableName.parse(name))
    assert record is not None
    place = replace_location(record.sd, location or f"{record.sd.location}/p={part}")
    one = types.Partition(values=[part], dbName="g", tableName=record.tableName, sd=place, parameters={})
    catalog.connection.change("add", "add_partition", one)


def replace_location(descriptor: Any, location: str) -> Any:
    copied = thrift_types().StorageDescriptor(**vars(descriptor))
    copied.location = location
    return copied


def test_renames_leave_what_those_of_java_leave(
    hive: HiveServer, database: HiveCatalog, tmp_path: Path
) -> None:
    wide = opened(hive, **{"external-roots": str(tmp_path)})
    for who in ("java", "ours"):
        java(hive, "create", f"g.{who}_t", json.dumps(PARTED))
        fill(hive.warehouse / "g.db" / f"{who}_t")
        add_partition(wide, f"g.{who}_t", "a")
        options = {**PARTED["options"], "path": str(tmp_path / who)}
        java(hive, "create", f"g.{who}_away", json.dumps({**PARTED, "options": options}))
        fill(tmp_path / who)
    for old, new in (("t", "u"), ("away", "far")):
        java(hive, "rename", f"g.java_{old}", f"g.java_{new}")
        wide.rename_table(f"g.ours_{old}", f"g.ours_{new}")
        for who in ("java", "ours"):
            assert rows(wide, f"g.{who}_{new}") == ROWS
            assert rows_of_java(hive, f"g.{who}_{new}") == len(ROWS)
        assert entry(wide, f"g.java_{new}", java="x") == entry(wide, f"g.ours_{new}", ours="x")
    assert not (hive.warehouse / "g.db" / "ours_t").exists()
    assert (tmp_path / "ours" / "p=a").exists()
    with pytest.raises(AlreadyExistsError):
        wide.rename_table("g.ours_u", "g.java_u")
    with pytest.raises(OracleError):
        java(hive, "rename", "g.java_u", "g.ours_u")
    for alter in (
        lambda: java(hive, "alter", "g.ours_u", '[{"op": "add", "name": "n", "type": "INT"}]'),
        lambda: wide.alter_table("g.ours_u", [{"op": "add", "name": "n", "type": "INT"}]),
    ):
        with pytest.raises((OracleError, UnsupportedError)):
            alter()
    wide.close()


def test_drops_leave_what_those_of_java_leave(
    hive: HiveServer, database: HiveCatalog, tmp_path: Path
) -> None:
    wide = opened(hive, **{"external-roots": str(tmp_path)})
    for who in ("java", "ours"):
        java(hive, "create", f"g.{who}_t", json.dumps(PARTED))
        fill(hive.warehouse / "g.db" / f"{who}_t")
        options = {**PARTED["options"], "path": str(tmp_path / who)}
        java(hive, "create", f"g.{who}_away", json.dumps({**PARTED, "options": options}))
        fill(tmp_path / who)
    before = entry(wide, "g.ours_t")
    with pytest.raises(UnsupportedError, match="external"):
        wide.drop_table("g.ours_away", purge=True)
    for name in ("t", "away"):
        java(hive, "drop", f"g.java_{name}")
        record = wide.drop_table(f"g.ours_{name}")
        assert (record is None) == (name == "away")
    for who in ("java", "ours"):
        assert not (hive.warehouse / "g.db" / f"{who}_t").exists()
        assert (tmp_path / who / "p=b").exists()
    assert wide._metastore.table_names("g") == []
    wide.drop_table("g.ours_t", if_exists=True)
    assert wide.restore_table("g.ours_t").name == "g.ours_t"
    assert entry(wide, "g.ours_t") == before
    assert rows(wide, "g.ours_t") == ROWS
    assert rows_of_java(hive, "g.ours_t") == len(ROWS)
    wide.drop_table("g.ours_t", purge=True)
    assert not wide.dropped_tables("g.ours_t")
    wide.create_table("g.empty", PARTED)
    wide.rename_table("g.empty", "g.bare")
    wide.drop_table("g.bare")
    assert rows(wide, wide.restore_table("g.bare").name) == []
    wide.create_table("g.p", {"columns": ["k INT"]})
    wide.drop_database("g", cascade=True)
    assert "g" not in wide.list_databases()
    assert {one.table for one in wide.dropped_tables()} == {"g.bare", "g.p"}
    wide.close()


def test_what_is_not_alone_or_not_javas_is_refused(
    hive: HiveServer, database: HiveCatalog, tmp_path: Path
) -> None:
    database.create_table("g.t", PARTED)
    record = database._metastore.table(TableName("g", "t"))
    assert record is not None
    record.tableName, record.tableType = "inner", "EXTERNAL_TABLE"
    record.parameters = {**record.parameters, "EXTERNAL": "TRUE"}
    record.sd.location += "/deep"
    database._metastore.create_table(record)
    with contextlib.closing(opened(hive, **{"location-in-properties": "true"})) as other:
        for catalog, words in ((database, "'g.inner' lies at"), (other, "location-in-properties")):
            with pytest.raises(UnsupportedError, match=words):
                catalog.drop_table("g.t")
            with pytest.raises(UnsupportedError, match=words):
                catalog.rename_table("g.t", "g.u")
    database.drop_table("g.inner")
    moved = database._metastore.table(TableName("g", "t"))
    assert moved is not None
    moved.sd.location = f"file:{hive.warehouse}/g.db"
    database._metastore.alter_table(moved, cascade=False, skip_statistics=True)
    with pytest.raises(UnsupportedError, match="database 'g' lies at"):
        database.drop_table("g.t")
    moved.sd.location = f"file:{hive.warehouse}/g.db/t"
    database._metastore.alter_table(moved, cascade=False, skip_statistics=True)
    dropped = database.drop_table("g.t")
    assert dropped is not None
    path = next((hive.warehouse / ".lakecore" / "dropped").rglob("drop.json"))
    path.write_text(path.read_text().replace("TextInputFormat", "OtherFormat"))
    with pytest.raises(CorruptDataError, match="managed format table"):
        database.restore_table("g.t")
    assert not database.table_exists("g.t")


def test_a_partition_that_hive_put_elsewhere_stays_there(
    hive: HiveServer, database: HiveCatalog, tmp_path: Path
) -> None:
    database.create_table("g.t", PARTED)
    fill(hive.warehouse / "g.db" / "t")
    add_partition(database, "g.t", "a")
    add_partition(database, "g.t", "z", f"file:{tmp_path}/z")
    database.rename_table("g.t", "g.u")
    places = {
        one.values[0]: one.sd.location
        for one in database._lists.of_name(TableName("g", "u"), ("p",)).records()
    }
    assert places == {"a": f"file:{hive.warehouse}/g.db/u/p=a", "z": f"file:{tmp_path}/z"}


@pytest.fixture(scope="module")
def proxy(hive: HiveServer) -> Iterator[CutProxy]:
    with cut_proxy(hive.port) as between:
        yield between


def later(catalog: HiveCatalog) -> HiveCatalog:
    """The catalog when the leases of earlier processes have ended."""
    return replace(catalog, clock=FakeClock(int(time.time() * 1000) + 3_600_000))


def change(catalog: HiveCatalog, operation: str) -> None:
    if operation == "rename":
        catalog.rename_table("g.t", "g.u")
    elif operation == "drop":
        catalog.drop_table("g.t")
    else:
        catalog.restore_table("g.t")


def check_after_failure(hive: HiveServer, catalog: HiveCatalog, operation: str, where: str) -> None:
    """The table has its rows under one of its names, after what the messages say; Java reads the same."""
    for name in ("g.t", "g.u"):
        with contextlib.suppress(NotFoundError):
            later(catalog).repair_table(name)
    with contextlib.suppress(NotFoundError, AlreadyExistsError):
        change(later(catalog), operation)
    if operation == "drop":
        assert catalog.list_tables("g", table_type="format-table") == [], where
        later(catalog).restore_table("g.t")
    (table,) = catalog.list_tables("g", table_type="format-table")
    assert rows(catalog, f"g.{table}") == ROWS, where
    if operation == "rename":  # Hive and Java read partitions where the metastore has them
        partitions = [
            one.sd.location for one in catalog._lists.of_name(TableName("g", table), ("p",)).records()
        ]
        assert all(f"/g.db/{table}/" in one for one in partitions), (where, partitions)
    assert table == ("u" if operation == "rename" else "t"), where


@pytest.mark.parametrize("operation", ["drop", "rename", "restore"])
def test_storage_or_metastore_failing_at_each_step_loses_no_table(
    hive: HiveServer, database: HiveCatalog, proxy: CutProxy, operation: str
) -> None:
    through = opened(HiveServer(proxy.port, hive.warehouse, hive.oracle))
    through = replace(through, connection=replace(through.connection, clock=FakeClock()))
    modes = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD)
    for fault in (*modes, True, False):
        for number in range(1 + (*modes, True, False).index(fault) % STRIDE, 120, STRIDE):
            cleared(hive, database)
            database.create_database("g")
            database.create_table("g.t", PARTED)
            fill(hive.warehouse / "g.db" / "t")
            if operation == "rename":
                add_partition(database, "g.t", "a")
            if operation == "restore":
                database.drop_table("g.t")
            storage = (
                FaultyFileIO(database.file_io, fail_at=number, mode=fault)
                if isinstance(fault, FaultMode)
                else None
            )
            if storage is None:
                proxy.arm(number, after_effect=bool(fault))
            try:
                change(through if storage is None else replace(database, file_io=storage), operation)
            except LakeError as err:
                logging.getLogger(__name__).debug("the change failed: %s", err)
            fired = proxy.fired if storage is None else storage.fired
            proxy.arm(0, after_effect=False)
            check_after_failure(hive, database, operation, f"{fault} at {number}")
            if not fired:
                break
        assert number > STRIDE or STRIDE > 1
    assert rows_of_java(hive, "g.u" if operation == "rename" else "g.t") == len(ROWS)
    through.close()
