"""Paimon's own connector for Spark 3.5 goes on with a table that lakecore wrote: `python -m tests.spark_versions.connector JAR TABLE FIRST`.

It runs with the Python of the environment `3.5`, without lakecore. It adds twenty rows from FIRST on, half of them new
versions of rows that are there, and prints the rows that it reads then.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime


def main(jar: str, path: str, first: int) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.jars", jar)
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    at = datetime(2026, 11, 29, 12, 0, 0, 500_000, UTC)
    rows = [(k, 10_000 + k, at) for k in range(first, first + 20)]
    frame = session.createDataFrame(rows, "k int, v bigint, at timestamp")
    frame.write.format("paimon").mode("append").save(path)
    found = session.read.format("paimon").load(path).select("k", "v").collect()
    session.stop()
    print(json.dumps(sorted([row.k, row.v] for row in found)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
