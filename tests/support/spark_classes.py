"""This module makes an archive with the classes of Spark SQL, which the JVMs of tests map instead of loading each.

A session that writes, reads and follows a table spends 7.0 CPU seconds of its JVM with it and 13.5 without (Java 17,
Spark 4.2). The archive of lakecore itself (lakecore/spark/class_archive.py) has the classes of units, without SQL. The
JVM checks that Java and the jars are those of the archive, and starts without it if they are not. It also does so if
there is a directory with files on the class path, so that SPARK_HOME of tests has no folder `conf`.

`python -m tests.support.spark_classes` makes the archive (half a minute), which setup does.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from lakecore.spark.java import find_java, java_version

__all__ = ["SHORT_LIVED", "make_archive", "short_lived"]

ROOT = Path(__file__).resolve().parents[2]
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before the optimising compiler has paid for itself."""
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # a JVM reports about archives on standard output


def _archive() -> Path:
    """Return where the archive for this Java and the installed jars of Spark is, or would be."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    java = find_java()
    key = "\0".join(map(str, (java, java_version(java), jars, jars.stat().st_mtime_ns)))
    return ROOT / ".cache" / "spark" / f"sql-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


@functools.cache
def short_lived() -> str:
    """Return `SHORT_LIVED`, and the options to use the archive, if there is one."""
    archive = _archive()
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} {_QUIET}" if archive.is_file() else SHORT_LIVED


def make_archive() -> None:
    """Make the archive unless there is one. It appears completely or not at all."""
    archive = _archive()
    if archive.is_file():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        fresh = Path(folder) / archive.name
        _session(Path(folder) / "lake", f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={fresh} {_QUIET}")
        fresh.replace(archive)


def _session(lake: Path, jvm: str) -> None:
    """Run a session that writes, reads and follows tables; it returns after the end of its JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import lakecore

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", jvm)
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    catalog = lakecore.load_catalog(lake, create_warehouse=True)
    for name in ("d.source", "d.copy"):
        catalog.create_table(name, {"columns": ["k INT NOT NULL", "p STRING", "v INT"], "primaryKeys": ["k"]})
    rows = session.createDataFrame([(k, "p", k) for k in range(50)], "k INT, p STRING, v INT").coalesce(1)
    rows.write.format("lakecore").option("warehouse", str(lake)).mode("append").save("d.source")
    frame = session.read.format("lakecore").option("warehouse", str(lake)).load("d.source")
    frame.where("k < 10").groupBy("p").count().orderBy("p").collect()
    changes = session.readStream.format("lakecore").option("warehouse", str(lake)).load("d.source")
    writer = changes.writeStream.format("lakecore").option("checkpointLocation", f"{lake}-checkpoint")
    query = writer.option("warehouse", str(lake)).trigger(availableNow=True).start("d.copy")
    query.awaitTermination()
    process = SparkContext._gateway.proc  # type: ignore[attr-defined]
    session.stop()
    process.stdin.close()  # the JVM ends with its parent, and that is what this says
    process.wait()


if __name__ == "__main__":
    make_archive()
