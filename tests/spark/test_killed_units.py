"""Workers and executors killed with SIGKILL in the middle of a unit: Spark tries again, or the job fails cleanly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import UnavailableError
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.spark.executor import SparkExecutor
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.killing_fs import KillingFileIO, KillPoint
from tests.support.lake import key_table, live_files, put, rows_of

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    """`d.k`: partitions 0, 1, 2 with two files each."""
    catalog = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(catalog, ("p INT", "k INT", "v STRING"), keys=("p", "k"), partitions=("p",))
    put(table, *([{"p": p, "k": k, "v": f"{n}"} for p in range(3) for k in range(n, 9)] for n in range(2)))
    return catalog


def compact(lake: FilesystemCatalog, spark: SparkExecutor, point: KillPoint) -> Report:
    catalog = replace(lake, file_io=KillingFileIO(point))
    return run(Job(table="d.k", strategy=Strategy.FULL, commit_user="job"), catalog, spark)


def check(table: Table, expected: list[object]) -> None:
    """The right rows, and nothing that nobody needs."""
    assert rows_of(table) == expected
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=SystemClock().now_ms(), read_data=True)
    assert report.findings == ()


@pytest.mark.parametrize(("point", "nth"), [("write", 1), ("open_input", 3)])
def test_a_worker_killed_once_is_tried_again(
    spark: SparkExecutor, lake: FilesystemCatalog, tmp_path: Path, point: str, nth: int
) -> None:
    table = lake.load_table("d.k")
    before = rows_of(table)
    marker = tmp_path / "killed"
    report = compact(
        lake,
        spark,
        KillPoint(name=point, part="p=1/bucket-", nth=nth, once=str(marker)),
    )
    assert marker.exists()
    assert (report.engine, report.picks_done, report.snapshots) == ("spark", 3, (3,))
    assert [file.level for file in live_files(table)] == [5, 5, 5]
    check(table, before)


@pytest.mark.parametrize("spark", ["local[2]"], indirect=True)
def test_postponed_rows_are_folded_by_units_also_when_a_worker_is_killed(
    spark: SparkExecutor, tmp_path: Path
) -> None:
    lake = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(lake, ("p INT", "k INT", "v STRING"), keys=("p", "k"), partitions=("p",), bucket="-2")
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(waiting, *([{"p": p, "k": k, "v": f"{n}"} for p in range(3) for k in range(9)] for n in range(2)))
    marker = tmp_path / "killed"
    report = compact(lake, spark, KillPoint(name="close", part="p=1/bucket-", once=str(marker)))
    assert marker.exists()
    assert (report.engine, report.rows_in, report.rows_out) == ("spark", 54, 27)
    check(table, [(p, k, "1") for p in range(3) for k in range(9)])


@pytest.mark.parametrize("spark", ["local-cluster[2,1,1024]"], indirect=True)
def test_an_executor_killed_once_is_replaced(
    spark: SparkExecutor, lake: FilesystemCatalog, tmp_path: Path
) -> None:
    table = lake.load_table("d.k")
    before = rows_of(table)
    marker = tmp_path / "killed"
    report = compact(
        lake, spark, KillPoint(name="write", part="p=1/bucket-", once=str(marker), grandparent=True)
    )
    assert "CoarseGrainedExecutorBackend" in marker.read_text()
    assert report.picks_done == 3
    check(table, before)


def test_a_worker_killed_on_every_try_fails_its_pick(spark: SparkExecutor, lake: FilesystemCatalog) -> None:
    table = lake.load_table("d.k")
    before = rows_of(table)
    with pytest.raises(UnavailableError, match="gave no result for unit"):
        compact(lake, spark, KillPoint(name="close", part="p=1/bucket-"))
    check(table, before)
    report = run(Job(table="d.k", strategy=Strategy.FULL, commit_user="job"), lake, spark)
    assert report.error is None
    assert [file.level for file in live_files(table)] == [5, 5, 5]
    check(table, before)
