"""Spark starts a copy of a task that writes slowly (`spark.speculation`): each row is in the table once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from tests.spark.test_stream_sink import drop, stream_of
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings
from tests.support.spark_cluster import cluster, settings

pytestmark = pytest.mark.slow

SLOW = """
import time
from pathlib import Path

import lakecore.spark.data_source.write_task as module
from pyspark import TaskContext

folder = Path(__file__).parent
write_rows = module.write_task


def is_slow():
    try:
        (folder / "slow").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def write_task(write, batches, *number):
    task = TaskContext.get()
    name = f"{task.partitionId()}.{'first' if task.attemptNumber() == 0 else 'copy'}"

    def slowly():
        for batch in batches:
            yield batch
            if batch.num_rows and name.endswith("first") and is_slow():
                (folder / f"{task.partitionId()}.slow").touch()
                time.sleep(240)  # its rows are written; the copy ends before

    prepared = write_rows(write, slowly(), *number)
    (folder / name).touch()
    return prepared


module.write_task = write_task
"""
"""Each Python worker imports this at its start: the first try of one task that has rows does not end by itself."""

COPIES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}
SHAPES: dict[str, dict[str, Any]] = {
    "append": {},
    "fixed": {"primaryKeys": ["k"], "options": {"bucket": "3"}},
    "dynamic": {"primaryKeys": ["k"], "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "40"}},
}


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow")
    (folder / "sitecustomize.py").write_text(SLOW)
    return folder


@pytest.fixture(scope="module")
def session(attempts: Path) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch, cluster(2, hosts=True) as spark:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(spark.master)
        paths = os.pathsep.join((str(attempts), os.getcwd()))
        for name, value in {**settings(), **COPIES, "spark.executorEnv.PYTHONPATH": paths}.items():
            builder = builder.config(name, value)
        started = builder.getOrCreate()
        started.sparkContext.setLogLevel("OFF")
        yield started
        started.stop()


@pytest.mark.parametrize(
    ("how", "name"),
    [("format", "append"), *((how, name) for how in ("batch", "stream") for name in SHAPES)],
)
def test_a_copy_of_a_slow_writer(
    session: SparkSession, oracle: Oracle, tmp_path: Path, attempts: Path, name: str, how: str
) -> None:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table("d.t", {"columns": ["k INT", "v STRING"], **SHAPES[name]})
    rows = [{"k": k, "v": f"{k}"} for k in range(120)]
    for marker in attempts.iterdir():
        if marker.suffix != ".py" and marker.is_file():
            marker.unlink()
    frame = session.createDataFrame([tuple(row.values()) for row in rows], "k INT, v STRING")
    if how == "batch":
        lakecore_spark.write(frame.repartition(3), table, parallelism=3)
    elif how == "format":
        writer = frame.repartition(3).write.format("lakecore").option("warehouse", catalog.warehouse)
        writer.mode("append").save("d.t")
    else:
        drop(tmp_path / "in", 0, rows)
        frame = stream_of(session, tmp_path / "in").repartition(3)
        query = lakecore_spark.write_stream(
            frame, table, str(tmp_path / "checkpoint"), parallelism=3, availableNow=True
        )
        query.awaitTermination()
    (slow,) = attempts.glob("*.slow")
    assert slow.with_suffix(".copy").exists(), "the copy of the slow task has prepared its rows"
    assert not slow.with_suffix(".first").exists()
    assert oracle.read(catalog.warehouse, "d.t") == canonical(rows)
    # Spark kills the slow try, so that its files stay until `remove-orphan-files`
    assert {
        one for one in findings(oracle.fsck(catalog.warehouse, "d.t")) if not one.startswith("orphan")
    } == set()
