"""Many small tables and one that fails on one Spark session, judged by Java Paimon; a unit that kills its worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.compact.pool.pool import TableExecutor, UnitPool
from lakecore.errors import UnavailableError
from lakecore.jobs import compact_database
from lakecore.jobs.compact import Strategy
from lakecore.spark.executor import SparkExecutor
from tests.spark import units
from tests.support.lake import live_files, put
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

TABLES = 16
KEYED = {
    "columns": ["k INT", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1", "write-only": "true"},
}


def test_many_tables_share_a_session_and_fail_alone(oracle: Oracle, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    tables = [catalog.create_table(f"d.t{number:02}", KEYED) for number in range(TABLES)]
    for number, table in enumerate(tables):
        put(table, *([{"k": k, "v": f"{number}.{n}.{k}"} for k in range(n, n + 4)] for n in range(3)))
    broken = tables[7]
    path = f"{broken.path}/bucket-0/{live_files(broken)[0].file_name}"
    Path(path).write_bytes(b"PAR1 not PAR1")
    job = compact_database.Job(strategy=Strategy.FULL, excluding_tables=r"d\.t15", commit_user="test")
    with SparkExecutor("local[2]") as spark:
        report = compact_database.run(job, catalog, spark)
        with UnitPool(spark) as pool:
            lost, *fine = TableExecutor(pool).run(units.die_or_double, range(3))
    assert report.counts() | {"tables": 15, "changed": 14, "failed": 1, "skipped": 0} == report.counts()
    (failed,) = report.failed
    assert (failed.table, failed.error_class) == (broken.name, "CorruptDataError")
    assert {one.engine for one in report.changed} == {"spark"}
    assert [len(live_files(table)) for table in tables] == [3 if n in (7, 15) else 1 for n in range(TABLES)]
    for number in (0, 14):
        rows = [json.loads(line) for line in oracle.read(tmp_path, f"d.t{number:02}")]
        wanted = {k: f"{number}.{min(k, 2)}.{k}" for k in range(6)}
        assert {row["k"]: row["v"] for row in rows} == wanted
        assert findings(oracle.fsck(tmp_path, f"d.t{number:02}")) == set()
    debris = {file.name for file in Path(broken.path, "bucket-0").iterdir()}
    assert debris == {file.file_name for file in live_files(broken)}
    assert isinstance(lost, UnavailableError)
    assert fine == [2, 4]
