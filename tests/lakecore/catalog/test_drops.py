"""Databases and tables are created, renamed, dropped and restored; what is dropped is kept, whatever fails."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import (
    AlreadyExistsError,
    BusyError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    OnHoldError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.definitions.repair import HoldTable, Purge, ReleaseTable
from lakecore.jobs.definitions.table_job import DAY_MS
from lakecore.jobs.holds import run as hold
from lakecore.jobs.quarantine import run as purge
from lakecore.maintain.lease.lease import LeaseTimes, leased
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import rows_of
from tests.support.s3_server import s3_server

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
ROWS = [(1, "a"), (2, "b")]


class NoSteps(FaultyFileIO):
    """Storage that cannot rename a directory in one step, as an object store."""

    def move_directory(self, path: str, target: str) -> bool:
        return False


@pytest.fixture(params=["memory", "local", "by file"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> FilesystemCatalog:
    MemoryFileIO("drops").clear()
    if request.param == "local":
        return load_catalog(tmp_path)
    made = load_catalog("memory://drops/wh")
    return made if request.param == "memory" else replace(made, file_io=NoSteps(made.file_io))


def filled(catalog: FilesystemCatalog, name: str = "d.t") -> None:
    table = catalog.create_table(name, KEYED)
    table.upsert(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    catalog.alter_table(name, [{"op": "add", "name": "c", "type": "INT"}])


def rows(catalog: FilesystemCatalog, name: str = "d.t") -> list[tuple[Any, ...]]:
    return [row[:2] for row in rows_of(catalog.load_table(name))]


def test_databases_are_made_listed_and_dropped(catalog: FilesystemCatalog) -> None:
    catalog.create_database("b")
    catalog.create_database("a")
    assert catalog.list_databases() == ["a", "b"]
    assert catalog.list_tables("a") == []
    assert catalog.get_database("a").name == "a"
    with pytest.raises(AlreadyExistsError, match="database 'a' exists"):
        catalog.create_database("a")
    catalog.create_database("a", if_not_exists=True)
    catalog.drop_database("a")
    assert catalog.list_databases() == ["b"]
    for call in (catalog.get_database, catalog.drop_database, catalog.alter_database):
        with pytest.raises(NotFoundError, match=r"database 'a' does not exist .*databases: b"):
            call("a")
    catalog.drop_database("a", if_exists=True)
    catalog.alter_database("a", {"x": "y"}, if_exists=True)


def test_properties_that_are_not_stored_are_refused(catalog: FilesystemCatalog) -> None:
    with pytest.raises(UnsupportedError, match=r"property location.*stores no properties"):
        catalog.create_database("a", properties={"location": "/elsewhere"})
    assert catalog.list_databases() == []
    catalog.create_database("a")
    for call in (
        lambda: catalog.alter_database("a", {"x": "y"}),
        lambda: catalog.alter_database("a", {}, ["x"]),
    ):
        with pytest.raises(UnsupportedError, match="property x"):
            call()
    catalog.alter_database("a")


def test_the_system_database_is_protected(catalog: FilesystemCatalog) -> None:
    for call in (catalog.create_database, catalog.drop_database, catalog.alter_database):
        with pytest.raises(InvalidInputError, match="'sys' cannot be"):
            call("sys")
    for call in (catalog.drop_table, catalog.restore_table, lambda n: catalog.rename_table(n, "d.t")):
        with pytest.raises(InvalidInputError, match="'sys' holds"):
            call("sys.tables")
    with pytest.raises(InvalidInputError, match="'sys' holds"):
        catalog.rename_table("d.t", "sys.t")
    assert catalog.list_tables("sys") == [
        "all_table_options",
        "catalog_options",
        "health",
        "partitions",
        "runs",
        "tables",
    ]
    assert catalog.get_database("sys").name == "sys"
    assert catalog.table_exists("sys.tables")
    assert not catalog.table_exists("sys.nothing")


def test_a_database_with_tables_is_dropped_by_cascade_only(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    filled(catalog, "d.u")
    with pytest.raises(InvalidInputError, match="holds 2 tables, such as 't'"):
        catalog.drop_database("d")
    hold(HoldTable(table="d.u", reason="look"), catalog)
    with pytest.raises(OnHoldError, match=r"d\.u is on hold"):
        catalog.drop_database("d", cascade=True)
    assert catalog.list_tables("d") == ["t", "u"], "nothing was dropped"
    hold(ReleaseTable(table="d.u"), catalog)
    stranger = f"{catalog.warehouse}/d.db/notes.txt"
    catalog.file_io.write_new(stranger, b"x")
    with pytest.raises(InvalidInputError, match=r"notes.txt, which belongs to no table"):
        catalog.drop_database("d", cascade=True)
    assert catalog.list_tables("d") == ["t", "u"], "nothing was dropped"
    catalog.file_io.delete(stranger)
    catalog.drop_database("d", cascade=True)
    assert catalog.list_databases() == []
    assert sorted(one.table for one in catalog.dropped_tables()) == ["d.t", "d.u"]  # within one millisecond
    assert rows_of(catalog.restore_table("d.t"), columns=["k", "v"]) == ROWS


def test_a_dropped_table_is_kept_and_comes_back(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    record = catalog.drop_table("d.t")
    assert record is not None
    assert not catalog.table_exists("d.t")
    assert catalog.file_io.list(f"{catalog.warehouse}/d.db/t") == []
    with pytest.raises(NotFoundError):
        catalog.drop_table("d.t")
    assert catalog.drop_table("d.t", if_exists=True) is None
    catalog.create_table("d.t", KEYED)
    with pytest.raises(AlreadyExistsError, match="rename or drop it before the restore"):
        catalog.restore_table("d.t")
    second = catalog.drop_table("d.t")
    assert [one.id for one in catalog.dropped_tables("d.t")] == sorted(
        (record.id, second.id), key=lambda i: [r.id for r in catalog.dropped_tables()].index(i)
    )
    with pytest.raises(NotFoundError, match="no drop 'nope'"):
        catalog.restore_table("d.t", "nope")
    with pytest.raises(NotFoundError, match="no dropped table"):
        catalog.restore_table("d.other")
    catalog.restore_table("d.t", record.id)
    assert rows(catalog) == ROWS
    catalog.load_table("d.t").upsert(
        pa.table({"k": pa.array([3], pa.int32()), "v": ["c"], "c": pa.array([1], pa.int32())})
    )
    assert rows(catalog) == [*ROWS, (3, "c")]


def test_a_purged_drop_leaves_no_file(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    catalog.drop_table("d.t", purge=True)
    assert catalog.dropped_tables() == ()
    left = catalog.file_io.list(f"{catalog.warehouse}/.lakecore/dropped/d.t")
    assert left == []


def test_the_quarantine_s_purge_deletes_old_drops_except_on_hold() -> None:
    MemoryFileIO("drops").clear()
    clock = FakeClock()
    catalog = replace(load_catalog("memory://drops/wh"), clock=clock)
    for name in ("d.t", "d.u"):
        filled(catalog, name)
        catalog.drop_table(name)
    catalog.create_table("d.u", KEYED)
    hold(HoldTable(table="d.u", reason="look"), catalog, None, clock)
    assert purge(Purge(ttl_ms=7 * DAY_MS), catalog, None, clock).nothing_to_do
    clock.sleep(8 * DAY_MS / 1000)
    report = purge(Purge(ttl_ms=7 * DAY_MS), catalog, None, clock)
    assert len(report.names) == 1
    assert report.names[0].startswith("d.t ")
    assert [one.table for one in catalog.dropped_tables()] == ["d.u"]


def test_a_table_on_hold_or_in_use_is_neither_dropped_nor_renamed(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    calls: list[Callable[[], object]] = [
        lambda: catalog.drop_table("d.t"),
        lambda: catalog.drop_table("d.t", purge=True),
        lambda: catalog.rename_table("d.t", "d.u"),
    ]
    with leased(catalog.file_io, catalog.warehouse, "d.t", "compact", SystemClock(), LeaseTimes(60_000)):
        for call in calls:
            with pytest.raises(BusyError):
                call()
    hold(HoldTable(table="d.t", reason="look"), catalog)
    for call in calls:
        with pytest.raises(OnHoldError, match=r"so (drop|rename)-table removes nothing"):
            call()
    assert rows(catalog) == ROWS


def test_a_table_is_renamed_in_one_step_or_not_at_all(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    catalog.create_database("e")
    catalog.create_table("d.taken", KEYED)
    with pytest.raises(AlreadyExistsError, match=r"'d\.taken' exists"):
        catalog.rename_table("d.t", "d.taken")
    with pytest.raises(NotFoundError, match=r"table 'd.x' does not exist"):
        catalog.rename_table("d.x", "d.y")
    catalog.rename_table("d.x", "d.y", if_exists=True)
    with pytest.raises(NotFoundError, match="database 'f' does not exist"):
        catalog.rename_table("d.t", "f.t")
    if isinstance(catalog.file_io, NoSteps):
        with pytest.raises(UnsupportedError, match="cannot rename a directory in one step"):
            catalog.rename_table("d.t", "e.t")
        assert rows(catalog) == ROWS
        return
    catalog.rename_table("d.t", "e.t")
    assert rows(catalog, "e.t") == ROWS
    assert not catalog.table_exists("d.t")


def test_if_not_exists_leaves_a_table_as_it_is(catalog: FilesystemCatalog) -> None:
    filled(catalog)
    other = {"columns": ["x INT"], "options": {}}
    assert catalog.create_table("d.t", other, if_not_exists=True).schema.row_type.names == ("k", "v", "c")
    assert rows(catalog) == ROWS


def test_defaults_of_the_catalog_are_options_of_new_tables(tmp_path: Path) -> None:
    options = {"table-default.bucket": "3", "table-default.file.format": "orc"}
    catalog = load_catalog(tmp_path, **options)
    first = catalog.create_table("d.t", {"columns": ["k INT"], "primaryKeys": ["k"]})
    assert dict(first.schema.options) == {"bucket": "3", "file.format": "orc"}
    second = catalog.create_table("d.u", KEYED)
    assert dict(second.schema.options) == {"bucket": "1", "file.format": "orc"}
    with pytest.raises(InvalidOptionError, match="bucket"):
        load_catalog(tmp_path, **{"table-default.bucket": "x"}).create_table("d.v", {"columns": ["k INT"]})
    with pytest.raises(InvalidOptionError, match="names no option"):
        load_catalog(tmp_path, **{"table-default.": "x"})
    assert catalog.list_tables("d") == ["t", "u"]


@pytest.mark.parametrize("storage", [FaultyFileIO, NoSteps])
@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT])
@pytest.mark.parametrize("action", ["drop", "purge", "restore", "rename", "drop-database"])
def test_storage_that_fails_at_any_operation_loses_nothing(
    action: str, mode: FaultMode, storage: type[FaultyFileIO]
) -> None:
    """After each failure: the table is whole, or not there and kept; a repetition completes the action."""
    if storage is NoSteps and action == "rename":
        return
    for number in itertools.count(1):
        MemoryFileIO("drops").clear()
        whole = replace(load_catalog("memory://drops/wh"), clock=FakeClock())
        filled(whole)
        if action == "restore":
            whole.drop_table("d.t")
        faulty = storage(whole.file_io, number, mode)
        broken = replace(whole, file_io=faulty)
        with suppress(LakeError):
            act(broken, action)
        whole.clock.sleep(120)  # the lease of the killed process ends
        if not faulty.fired:
            break
        check_whole_or_absent(whole)
        repaired = replace(whole, file_io=storage(whole.file_io)) if storage is NoSteps else whole
        try:
            act(repaired, action)
        except (NotFoundError, AlreadyExistsError):
            assert done(whole, action), f"operation {number} of {action}"
        assert done(whole, action), f"operation {number} of {action}: {faulty.log[-1]}"
        if action in ("drop", "drop-database") and whole.dropped_tables("d.t"):
            assert rows_of(repaired.restore_table("d.t"), columns=["k", "v"]) == ROWS
    assert number > 5


def act(catalog: FilesystemCatalog, action: str) -> None:
    match action:
        case "drop":
            catalog.drop_table("d.t")
        case "purge":
            catalog.drop_table("d.t", purge=True)
        case "restore":
            catalog.restore_table("d.t")
        case "rename":
            catalog.rename_table("d.t", "d.u")
        case "drop-database":
            catalog.drop_database("d", cascade=True)


def done(catalog: FilesystemCatalog, action: str) -> bool:
    match action:
        case "restore":
            return rows(catalog) == ROWS
        case "rename":
            return not catalog.table_exists("d.t") and rows(catalog, "d.u") == ROWS
        case "drop-database":
            return catalog.list_databases() == []
    return not catalog.table_exists("d.t")


def check_whole_or_absent(catalog: FilesystemCatalog) -> None:
    """A table that is found has all its rows or says that files are missing: it is never merely empty."""
    for name in ("d.t", "d.u"):
        if catalog.table_exists(name):
            try:
                assert rows(catalog, name) == ROWS
            except LakeError:
                assert catalog.dropped_tables(name), "a drop is on its way"


def test_a_half_dropped_table_is_in_the_way_of_a_new_one() -> None:
    MemoryFileIO("drops").clear()
    whole = replace(load_catalog("memory://drops/wh"), clock=FakeClock())
    filled(whole)
    faulty = NoSteps(whole.file_io)
    faulty.inner = Stubborn(whole.file_io)
    with pytest.raises(LakeError):
        replace(whole, file_io=faulty).drop_table("d.t")
    whole.clock.sleep(120)
    assert not whole.table_exists("d.t")
    with pytest.raises(AlreadyExistsError, match=r"its drop of .* was interrupted.*repeat"):
        whole.create_table("d.t", KEYED)
    replace(whole, file_io=NoSteps(whole.file_io)).drop_table("d.t")
    whole.create_table("d.t", KEYED)


class Stubborn(FaultyFileIO):
    """Storage that moves no data files."""

    def move(self, path: str, target: str) -> None:
        if "bucket-" in path:
            raise UnavailableError("not now")
        super().move(path, target)


def test_a_forged_record_of_a_drop_is_ignored(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path)
    filled(catalog)
    record = catalog.drop_table("d.t")
    path = tmp_path / ".lakecore" / "dropped" / "d.t" / record.id / "drop.json"
    text = path.read_text()
    for forged in (
        "{",
        text.replace('"d.t"', '"d.u"'),
        text.replace("kept", "lost"),
        text.replace(record.id, "../x"),
    ):
        path.write_text(forged)
        assert catalog.dropped_tables() == ()
        with pytest.raises(NotFoundError):
            catalog.restore_table("d.t")
    path.write_text(text.replace(str(tmp_path / "d.db" / "t"), "/etc"))
    catalog.restore_table("d.t")
    assert rows(catalog) == ROWS, "the place of a record is for people only"


def test_a_link_for_a_table_is_moved_itself(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path / "wh", create_warehouse=True)
    filled(catalog)
    os.rename(tmp_path / "wh" / "d.db" / "t", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "wh" / "d.db" / "t")
    catalog.drop_table("d.t")
    assert (tmp_path / "elsewhere" / "schema" / "schema-0").exists()
    assert not os.path.lexists(tmp_path / "wh" / "d.db" / "t")


@pytest.mark.slow
def test_drops_on_an_object_store(tmp_path: Path) -> None:
    with s3_server() as server:
        catalog = load_catalog(f"s3://{server.bucket}/wh", **server.options)
        catalog.create_database("e")
        assert catalog.list_databases() == ["e"]
        filled(catalog, "e.t")
        catalog.drop_table("e.t")
        assert catalog.list_tables("e") == []
        assert rows_of(catalog.restore_table("e.t"), columns=["k", "v"]) == ROWS
        with pytest.raises(UnsupportedError, match="in one step"):
            catalog.rename_table("e.t", "e.u")
        catalog.drop_database("e", cascade=True, purge=True)
        assert (catalog.list_databases(), catalog.dropped_tables()) == ([], ())
