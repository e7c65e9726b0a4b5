"""File indexes made on Spark: units and results cross processes, and every file is covered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs.rewrite_file_index import Job, run
from lakecore.spark.executor import SparkExecutor
from tests.support.lake import append_table

pytestmark = pytest.mark.slow


def test_units_run_on_spark(spark: SparkExecutor, tmp_path: Path) -> None:
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
