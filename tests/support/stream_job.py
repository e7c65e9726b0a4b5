"""A streaming query in a process of its own, which tests kill: `python -m tests.support.stream_job WAREHOUSE
CHECKPOINT plain|shuffled [MASTER]`. It follows `d.source` and writes `d.copy` until it is killed, or a task fails four
times (on a cluster: twenty times).
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from tests.support.spark_cluster import settings

LOCAL = "local[2,4]"


def main(warehouse: str, checkpoint: str, kind: str, master: str = LOCAL) -> None:
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for key, value in settings().items() if master != LOCAL else ():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    reader = session.readStream.format("lakecore").option("warehouse", warehouse)
    frame = reader.option("read.stream.maxSnapshotsPerTrigger", "2").load("d.source")
    if kind == "shuffled":
        table = lakecore.load_catalog(warehouse).load_table("d.copy")
        query = lakecore_spark.write_stream(frame, table, checkpoint, parallelism=2)
    else:
        writer = frame.writeStream.format("lakecore").option("checkpointLocation", checkpoint)
        query = writer.option("warehouse", warehouse).start("d.copy")
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
