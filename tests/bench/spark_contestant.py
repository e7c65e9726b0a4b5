"""One side of `tests.bench.spark_io` and `tests.bench.spark_floor`: a process with a Spark session that reads and writes tables as it is told on stdin.

    python -m tests.bench.spark_contestant lakecore WAREHOUSE
    python -m tests.bench.spark_contestant paimon WAREHOUSE JAR
    python -m tests.bench.spark_contestant floor WAREHOUSE

The side `paimon` runs with the Python of another environment (PySpark 3.5), which has no lakecore: this module imports
lakecore only on its own side. The side `floor` is a data source in Python that decodes and stores nothing. A line is `read TABLE`,
`frame TABLE`, `write TABLE SOURCE` or `save TABLE SOURCE`, with the path of parquet files as SOURCE. Answers are lines of JSON with `seconds`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

FORMATS = {"lakecore": "lakecore", "floor": "floor"}
SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
}


def session(jar: str | None) -> Any:
    """Return a session on two local cores; the jar is that of Paimon's connector."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if jar:
        builder = builder.config("spark.jars", jar)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: Any, side: str, warehouse: str, table: str) -> None:
    """Read every column of every row into Spark; its format `noop` does nothing with them."""
    if side == "paimon":
        rows = spark.read.format("paimon").load(f"{warehouse}/db.db/{table}")
    elif side == "floor":
        rows = spark.read.format("floor").load(f"{warehouse}/batches/{table}")
    else:
        rows = spark.read.format("lakecore").option("warehouse", warehouse).load(f"db.{table}")
    rows.write.format("noop").mode("overwrite").save()


def frame(spark: Any, side: str, warehouse: str, table: str) -> None:
    """Read the same with `Scan.to_spark`, planned anew; only lakecore has it."""
    import lakecore

    rows = lakecore.load_catalog(warehouse).load_table(f"db.{table}").scan().to_spark(spark)
    rows.write.format("noop").mode("overwrite").save()


def write(spark: Any, side: str, warehouse: str, table: str, source: str) -> None:
    """Add the rows of parquet files to a table, as a user of that side does."""
    rows = spark.read.parquet(source)
    if side == "paimon":
        rows.write.format("paimon").mode("append").save(f"{warehouse}/db.db/{table}")
        return
    if side == "floor":
        from tests.bench.spark_floor_source import dropped

        rows.mapInArrow(dropped, "rows bigint").collect()
        return
    import lakecore
    from lakecore.spark import write as write_table

    write_table(rows, lakecore.load_catalog(warehouse).load_table(f"db.{table}"))


def save(spark: Any, side: str, warehouse: str, table: str, source: str) -> None:
    """Add the rows with the format of a side."""
    rows = spark.read.parquet(source).write.mode("append").format(FORMATS[side])
    rows.option("warehouse", warehouse).save(f"db.{table}")


def main(side: str, warehouse: str, jar: str | None = None) -> None:
    spark = session(jar)
    if side == "floor":
        from tests.bench.spark_floor_source import FloorSource

        spark.dataSource.register(FloorSource)
    actions = {"read": read, "frame": frame, "write": write, "save": save}
    for line in sys.stdin:
        action, *arguments = line.split()
        started = time.perf_counter()
        actions[action](spark, side, warehouse, *arguments)
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
