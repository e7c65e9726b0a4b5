"""A rename of a table of a JDBC catalog that is killed or fails at each step: the table keeps its rows, and `repair` completes it."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.errors import LakeError, NotFoundError
from lakecore.jobs.migration import repair_catalog
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.killing_fs import KillPoint, run_and_die
from tests.support.lake import rows_of

KEYED = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


def opened(tmp_path: str | Path) -> JdbcCatalog:
    catalog = load_catalog(
        f"{tmp_path}/wh", create_warehouse=True, metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/names.db"
    )
    assert isinstance(catalog, JdbcCatalog)
    return catalog


def made(tmp_path: Path) -> JdbcCatalog:
    (tmp_path / "wh").mkdir(parents=True)
    catalog = opened(tmp_path)
    catalog.create_database("d")
    table = catalog.create_table("d.t", KEYED)
    table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    return catalog


def rename(tmp_path: str) -> None:
    opened(tmp_path).rename_table("d.t", "d.u")


def later(catalog: JdbcCatalog) -> JdbcCatalog:
    """The catalog when the lease of the killed process has ended."""
    return replace(catalog, clock=FakeClock(int(time.time() * 1000) + 3_600_000))


@pytest.mark.parametrize(
    ("point", "name", "repaired"),
    [
        (KillPoint(name="overwrite", part="renames", after=True), "d.t", ""),
        *((KillPoint(name="move_directory", part="d.db"), "d.u", one) for one in ("d.t", "d.u", "")),
        (KillPoint(name="move_directory", part="d.db", after=True), "d.u", "d.u"),
        (KillPoint(name="delete", part="renames"), "d.u", ""),
    ],
)
def test_a_killed_rename_is_completed_by_repair(
    tmp_path: Path, point: KillPoint, name: str, repaired: str
) -> None:
    catalog = made(tmp_path)
    run_and_die(point, rename, str(tmp_path))
    if point == KillPoint(name="move_directory", part="d.db"):
        for lost in ("d.t", "d.u"):
            with pytest.raises(NotFoundError, match=f"rename of d.t to d.u was interrupted.*repair {lost}"):
                catalog.load_table(lost)
    report = repair_catalog.run(repair_catalog.Job(target=repaired), later(catalog))
    assert not report.notes
    assert catalog.list_tables("d") == [name[2:]]
    assert rows_of(catalog.load_table(name)) == [(1, "a")]
    assert not list((tmp_path / "wh" / ".lakecore" / "renames").glob("*"))
    other = {"d.t": "d.u", "d.u": "d.t"}[name]
    with pytest.raises(NotFoundError, match="does not exist"):
        catalog.load_table(other)
    later(catalog).rename_table(name, other)
    assert rows_of(catalog.load_table(other)) == [(1, "a")]


@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD])
def test_storage_that_fails_at_each_operation_of_a_rename_loses_no_table(
    tmp_path: Path, mode: FaultMode
) -> None:
    for number in range(1, 100):
        path = tmp_path / str(number)
        catalog = made(path)
        storage = FaultyFileIO(catalog.file_io, fail_at=number, mode=mode)
        try:
            replace(catalog, file_io=storage).rename_table("d.t", "d.u")
        except LakeError as err:
            logging.getLogger(__name__).debug("the rename failed: %s", err)
        else:
            if not storage.fired:
                assert number > 10
                return
        repair_catalog.run(repair_catalog.Job(target="d"), later(catalog))
        (table,) = catalog.list_tables("d")
        assert rows_of(catalog.load_table(f"d.{table}")) == [(1, "a")]
    raise AssertionError("the rename does not end")
