"""A streaming query in a process of its own that tests stop at each change of the disk: `python -m tests.support.epoch_job
WAREHOUSE CHECKPOINT plain|shuffled`. For each line of its input it copies what is new in `d.source` to `d.copy`, as one
micro-batch of a query that is started on the checkpoint, and prints `ended`, or `failed` and the error.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from tests.support.counted_changes import spark_settings


def main(warehouse: str, checkpoint: str, kind: str) -> None:
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    for key, value in spark_settings().items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    for _ in sys.stdin:
        try:
            _run(session, warehouse, checkpoint, kind)
        except PySparkException as err:
            print("failed", " ".join(str(err).split())[:4000], flush=True)
        else:
            print("ended", flush=True)


def _run(session: SparkSession, warehouse: str, checkpoint: str, kind: str) -> None:
    reader = session.readStream.format("lakecore").option("warehouse", warehouse)
    frame = reader.option("consumer-id", "copy").load("d.source")
    query: Any
    if kind == "shuffled":
        table = lakecore.load_catalog(warehouse).load_table("d.copy")
        query = lakecore_spark.write_stream(frame, table, checkpoint, parallelism=2, availableNow=True)
    else:
        writer = frame.writeStream.format("lakecore").option("checkpointLocation", checkpoint)
        query = writer.option("warehouse", warehouse).trigger(availableNow=True).start("d.copy")
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
