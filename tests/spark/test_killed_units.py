"""Workers and executors killed with SIGKILL in the middle of a unit: Spark tries again, or the job fails cleanly."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.clock import SystemClock
from lakecore.errors import UnavailableError
from lakecore.jobs import remove_orphan_files
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.spark import write
from lakecore.spark.executor import SparkExecutor
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.chores import FUTURE
from tests.support.golden import canonical
from tests.support.killing_fs import KillingFileIO, KillPoint
from tests.support.lake import key_table, live_files, put, rows_of
from tests.support.maintained import OWNER
from tests.support.oracle import Oracle, findings

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


@pytest.mark.parametrize("spark", ["local-cluster[2,1,1024]"], indirect=True)
@pytest.mark.parametrize("keys", [("k", "p"), ("k",)], ids=["dynamic buckets", "keys that move"])
def test_assigners_after_an_executor_was_killed(
    spark: SparkExecutor, oracle: Oracle, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    """It dies in a writer. What it had shuffled is lost with it, so that assigners run again."""
    lake = load_catalog(str(tmp_path / "lake"), create_warehouse=True, **{"local.fsync": "false"})
    parallel = {"dynamic-bucket.assigner-parallelism": "2", "dynamic-bucket.initial-buckets": "2"}
    definition = {
        "columns": ["k BIGINT", "p INT", "v INT"],
        "primaryKeys": list(keys),
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "20", **parallel},
    }
    lake.create_table("d.t", definition).write(
        pa.table({"k": range(100), "p": [k % 2 for k in range(100)], "v": [0] * 100})
    )
    marker = tmp_path / "killed"
    kill = KillPoint(name="close", part="/bucket-", once=str(marker), grandparent=True, spared=os.getpid())
    table = replace(lake, file_io=KillingFileIO(kill)).load_table("d.t")
    rows = [(k, (k + 1) % 2, 1) for k in range(50, 160)]
    session = spark.session()
    frame = session.createDataFrame(session.sparkContext.parallelize(rows, 2), "k BIGINT, p INT, v INT")
    assert len(write(frame, table, parallelism=2).snapshot_ids) == 1
    assert "CoarseGrainedExecutorBackend" in marker.read_text()
    before = {(k, k % 2): 0 for k in range(50 if keys == ("k",) else 100)}
    expected = before | {(k, p): v for k, p, v in rows}
    java = oracle.read(lake.warehouse, "d.t")
    assert java == canonical({"k": k, "p": p, "v": v} for (k, p), v in expected.items())
    assert {line.split(":")[0] for line in findings(oracle.fsck(lake.warehouse, "d.t"))} <= {"orphan"}
    remove_orphan_files.run(remove_orphan_files.Job(table="d.t", safety=OWNER), lake, clock=FUTURE)
    assert findings(oracle.fsck(lake.warehouse, "d.t")) == set()
    check(lake.load_table("d.t"), sorted([(k, p, v) for (k, p), v in expected.items()], key=repr))
