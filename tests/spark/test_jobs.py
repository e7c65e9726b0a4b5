"""Jobs other than compaction on Spark: units and results cross processes, a killed worker costs nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import quarantine, remove_orphan_files
from lakecore.jobs.rewrite_file_index import Job, run
from lakecore.spark.executor import SparkExecutor
from tests.support.killing_fs import KillingFileIO, KillPoint
from tests.support.lake import append_table, paths_of

pytestmark = pytest.mark.slow


def test_file_indexes_are_made_on_spark(spark: SparkExecutor, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    table = append_table(catalog, ("v INT", "p STRING"), ("p",))
    for n in range(3):
        table.append(pa.table({"v": range(100 * n, 100 * n + 100), "p": ["a", "b"] * 50}))
    options = {"file-index.bitmap.columns": "v", "file-index.bsi.columns": "v"}
    report = run(Job(table=table.name, options=options, commit_user="me"), catalog, spark)
    assert (report.error, report.engine, report.files, report.rows) == (None, "spark", 6, 300)
    assert {(found.files, found.files_lacking) for found in report.coverage} == {(6, 0)}
    assert table.scan(where="v in (5, 105, 299, 900)").to_arrow().num_rows == 3
    assert run(Job(table=table.name, options=options, commit_user="you"), catalog, spark).nothing_to_do


def test_files_are_removed_on_executors_and_a_killed_worker_does_not_matter(
    spark: SparkExecutor, tmp_path: Path
) -> None:
    catalog = load_catalog(str(tmp_path / "wh"), create_warehouse=True, **{"local.fsync": "false"})
    table = append_table(catalog)
    table.append(pa.table({"v": [1], "p": ["a"]}))
    live = paths_of(table, "")
    for number in range(1200):
        stray = tmp_path / f"wh/d.db/a/bucket-{number % 600}/data-{number}.parquet"  # many folders, too
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"x")
        os.utime(stray, (0, 10))
    killed = tmp_path / "killed"
    point = KillPoint(name="move", part="data-77.parquet", after=True, once=str(killed))
    storage = replace(catalog, file_io=KillingFileIO(point))
    job = remove_orphan_files.Job(table="d.a", max_share=1.0)
    report = remove_orphan_files.run(job, storage, spark)
    assert killed.exists()
    assert (report.files, report.spared, paths_of(table, "")) == (1200, 0, live)
    undone = quarantine.run(quarantine.Undo(run_id=str(report.run)), catalog)
    assert undone.files == 1200
    assert len(paths_of(table, "bucket-")) == 1201
