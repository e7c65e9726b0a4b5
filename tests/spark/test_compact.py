"""One bucket cut into units that run on Spark: the right rows, judged by Java Paimon."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import ProofError
from lakecore.jobs import analyze, rescale
from lakecore.jobs.compact import Job, OrderStrategy, Strategy, run, run_many
from lakecore.spark.executor import SparkExecutor
from lakecore.verify.fsck.check import fsck
from tests.support.false_entries import told_wrongly
from tests.support.lake import append_table, key_table, live_files, put, rows_of
from tests.support.oracle import Oracle, findings

pytestmark = pytest.mark.slow

COMMITS = 3
KEYS = 120_000


def test_a_cut_bucket_reads_right_in_java(spark: SparkExecutor, oracle: Oracle, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    options = {"target_file_size": "256 kb", "write_buffer_size": "512 mb"}
    table = key_table(catalog, ("a STRING", "b BIGINT", "v BIGINT"), ("a", "b"), **options)
    random = np.random.default_rng(11)
    left: dict[int, int] = {}
    for _ in range(COMMITS):
        chosen = random.permutation(np.flatnonzero(random.random(KEYS) < 0.5)).tolist()
        values = random.integers(0, 2**40, len(chosen)).tolist()
        kinds = np.where(random.random(len(chosen)) < 0.1, "-D", "+I").tolist()
        names = [f"ключ{key // 30_000}" for key in chosen]
        table.upsert(pa.table({"a": names, "b": chosen, "v": values, "_kind": kinds}))
        for key, value, kind in zip(chosen, values, kinds, strict=True):
            if kind == "+I":
                left[key] = value
            else:
                left.pop(key, None)
    report = run(Job(table="d.k", strategy=Strategy.FULL), catalog, spark)
    assert (report.error, report.engine, report.picks_done) == (None, "spark", 1)
    files = live_files(table)
    units = {file.file_name.rpartition("-")[0] for file in files}  # what precedes the number of a file
    assert len(units) > 1, "the bucket was not cut"
    assert {file.level for file in files} == {5}
    assert report.rows_out == len(left)
    rows = [json.loads(line) for line in oracle.read(tmp_path, "d.k")]
    assert {row["b"]: row["v"] for row in rows} == left
    assert len(rows) == len(left)
    assert findings(oracle.fsck(tmp_path, "d.k")) == set()


def test_one_partition_is_put_in_order_in_ranges_and_analyzed(spark: SparkExecutor, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    table = append_table(catalog, ("a BIGINT", "b BIGINT"), target_file_size="4 kb")
    for n in range(4):
        rows = range(1000 * n, 1000 * n + 1000)
        table.append(pa.table({"a": [row * 7919 % 4001 for row in rows], "b": list(rows)}))
    before = table.scan().to_arrow().sort_by("b")
    report = run(Job(table="d.a", order_strategy=OrderStrategy.ZORDER, order_by=("a", "b")), catalog, spark)
    assert (report.error, report.engine, report.rows_in, report.picks_done) == (None, "spark", 4000, 1)
    assert len({file.file_name.rpartition("-")[0] for file in live_files(table)}) == 2
    assert table.scan().to_arrow().sort_by("b").equals(before)
    options = {"clustering.incremental": "true", "clustering.columns": "b"}
    report = run(Job(table="d.a", strategy=Strategy.FULL, options=options), catalog, spark)
    assert (report.error, {file.level for file in live_files(table)}) == (None, {5})
    assert table.scan().to_arrow().column("b").to_pylist() == list(range(4000))
    options = {
        "pk_clustering_override": "true",
        "clustering__columns": "s",
        "deletion_vectors__enabled": "true",
    }
    keyed = key_table(catalog, ("k INT", "s STRING"), **options)
    for n in range(2):
        keyed.upsert(pa.table({"k": list(range(n, 90)), "s": [f"{k % 7} {n}" for k in range(n, 90)]}))
        report = run(Job(table="d.k", strategy=Strategy.FULL), catalog, spark)
        assert (report.error, report.picks_done, len(live_files(keyed))) == (None, 1 + n, 1)
    assert keyed.scan().to_arrow().column("s").to_pylist() == sorted(
        ["0 0", *(f"{k % 7} 1" for k in range(1, 90))]
    )
    found = []
    for executor in (spark, None):
        analyze.run(analyze.Job(table="d.a", columns=("all",)), catalog, executor)
        (row,) = catalog.load_table("d.a$statistics").scan().to_arrow().to_pylist()
        found.append({name: row[name] for name in ("mergedRecordCount", "colstat")})
    assert found[0] == found[1]


def test_buckets_are_rescaled_by_units(spark: SparkExecutor, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(catalog, ("k INT", "v INT"), bucket="2")
    for n in range(3):
        table.upsert(pa.table({"k": list(range(n, 500)), "v": [n] * (500 - n)}))
    before = table.scan().to_arrow().sort_by("k")
    report = rescale.run(rescale.Job(table="d.k", bucket_num=4), catalog, spark)
    assert (report.names, report.files, len(live_files(table))) == (("the table: 2 -> 4 buckets",), 6, 12)
    assert table.scan().to_arrow().sort_by("k").equals(before)


def test_a_refused_bucket_does_not_hold_back_the_others(spark: SparkExecutor, tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(catalog, bucket="4")
    put(table, *([{"k": k, "v": f"{n}"} for k in range(40)] for n in range(3)))
    told_wrongly(table, 1)
    rows = rows_of(table)
    job = Job(table="d.k", strategy=Strategy.FULL)
    with pytest.raises(ProofError, match=r"bucket-1.*lakecore fsck --deep d\.k"):
        run(job, catalog, spark)
    (report,) = run_many([job], catalog, spark)
    assert (report.error_class, report.picks_done, report.picks_left) == ("ProofError", 0, 1)
    assert sorted(file.level for file in live_files(table)) == [0, 0, 0, 5, 5, 5]
    assert rows_of(table) == rows
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms() + 10**9).findings
    assert {finding.path.rpartition("/")[2] for finding in found if "orphan" in finding.kind.value} == set()
