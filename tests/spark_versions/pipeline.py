"""A pipeline for any PySpark from 3.5 on, in a process of its own: `python -m tests.spark_versions.pipeline LAKE`.

It prints one JSON object: what each step gave, or the error that refused it. It does not ask for the version of
Spark: what a version must give is said by the test.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.jobs.compact import Job, Strategy, run
from lakecore.spark.executor import SparkExecutor
from lakecore.table import Table

ROWS = 40
COLUMNS = {"columns": ["k INT", "v BIGINT", "at TIMESTAMP(3) WITH LOCAL TIME ZONE"], "primaryKeys": ["k"]}
SCHEMA = "k int, v bigint, at timestamp"


class Pipeline:
    def __init__(self, session: SparkSession, lake: Path) -> None:
        self.session, self.lake = session, lake
        self.catalog = lakecore.load_catalog(lake, create_warehouse=True, **{"local.fsync": "false"})
        for name in ("keyed", "copy", "from_files"):
            self.catalog.create_table(f"d.{name}", {**COLUMNS, "options": {"bucket": "2"}})
        for name in ("saved", "sunk"):
            self.catalog.create_table(f"d.{name}", {"columns": ["k INT", "v BIGINT"]})

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"d.{name}")

    def rows(self, first: int, last: int, value: int) -> DataFrame:
        moments = [datetime(2026, 11, 24, 20, 0, k % 60, 123_000, UTC) for k in range(first, last)]
        data = [(k, value + k, at) for k, at in zip(range(first, last), moments, strict=True)]
        return self.session.createDataFrame(data, SCHEMA).repartition(2)

    def load(self, name: str, **options: str) -> DataFrame:
        reader = self.session.read.format("lakecore").option("warehouse", str(self.lake))
        return reader.options(**options).load(f"d.{name}")

    def stream(self, name: str, **options: str) -> DataFrame:
        reader = self.session.readStream.format("lakecore").option("warehouse", str(self.lake))
        return reader.options(**options).load(f"d.{name}")

    def write(self) -> list[int]:
        table = self.table("keyed")
        for first, last, value in ((0, ROWS // 2, 0), (ROWS // 4, ROWS, 1000)):
            lakecore_spark.write(self.rows(first, last, value), table, parallelism=2)
        return [len(table.scan().to_arrow()), table.latest_snapshot().id]

    def compact(self) -> list[Any]:
        with SparkExecutor() as executor:
            report = run(Job(table="d.keyed", strategy=Strategy.FULL), self.catalog, executor)
        return [report.error, report.engine, report.picks_done, report.rows_out]

    def cancel(self) -> bool:
        """A unit that sleeps for a minute ends when its results are not wanted any more."""
        began = time.monotonic()
        with SparkExecutor() as executor:
            results = executor.run(time.sleep, [0, 60])
            next(results)
            results.close()
        return time.monotonic() - began < 20

    def read(self) -> list[list[Any]]:
        frame = self.table("keyed").scan(where="k < 12").to_spark(self.session)
        return sorted([row.k, row.v, int(row.at.timestamp() * 1000)] for row in frame.collect())

    def partitions(self) -> list[int]:
        columns = {"columns": ["dt STRING", "k INT"], "partitionKeys": ["dt"]}
        table = self.catalog.create_table("d.parts", columns)
        rows = self.session.createDataFrame([(f"d{k % 3}", k) for k in range(9)], "dt string, k int")
        lakecore_spark.write(rows, table)
        chosen = self.session.createDataFrame([("d1",), ("d9",)], "dt string")
        scan = lakecore_spark.partitions_in(table.scan(), chosen)
        return sorted(row.k for row in scan.to_spark(self.session).collect())

    def join(self) -> list[list[int]]:
        asked = self.session.createDataFrame([(1,), (39,), (77,)], "k int")
        joined = lakecore_spark.lookup_join(asked, self.table("keyed"), "k", ["v", "at"])
        return sorted([row.k, row.v] for row in joined.collect())

    def files(self) -> list[Any]:
        """A stream of Spark's own, in two runs of one query."""
        for number in range(2):
            source = self.lake.parent / "files"
            source.mkdir(exist_ok=True)
            lines = [
                json.dumps({"k": k, "v": 10 * number + k, "at": "2026-11-24T20:00:00Z"}) for k in range(5)
            ]
            (source / f"{number}.json").write_text("\n".join(lines))
            frame = self.session.readStream.schema(SCHEMA).json(str(source))
            self._run(lakecore_spark.write_stream, frame, "from_files")
        table = self.table("from_files")
        return [sorted(row["v"] for row in table.scan().to_arrow().to_pylist()), table.latest_snapshot().id]

    def save(self) -> int:
        frame = self.rows(0, 10, 0).select("k", "v").coalesce(1)
        writer = frame.write.format("lakecore").mode("append").option("warehouse", str(self.lake))
        writer.save("d.saved")
        return int(self.load("saved").count())

    def loaded(self) -> list[list[Any]]:
        frame = self.load("keyed", where="k < 12")
        return sorted([row.k, row.v, int(row.at.timestamp() * 1000)] for row in frame.collect())

    def pushed(self) -> int:
        self.session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        return int(self.load("keyed", **{"push-filters": "once"}).where("k < 3").count())

    def copy(self) -> list[Any]:
        """A copy of a table by a query that is started three times; the third time there is nothing new."""
        seen = []
        for more in (None, (ROWS, ROWS + 2, 0), None):
            if more is not None:
                lakecore_spark.write(self.rows(*more), self.table("keyed"))
            self._run(lakecore_spark.write_stream, self.stream("keyed", kinds="true"), "copy")
            table = self.table("copy")
            seen.append([len(table.scan().to_arrow()), table.latest_snapshot().id])
        return seen

    def sunk(self) -> list[int]:
        """The plain format as the sink of a query that is started twice."""
        counts = []
        for _ in range(2):
            writer = self.stream("saved").coalesce(1).writeStream.format("lakecore")
            writer = writer.option("checkpointLocation", str(self.lake.parent / "checkpoint-sunk"))
            writer = writer.option("warehouse", str(self.lake)).trigger(availableNow=True)
            _end(partial(writer.start, "d.sunk"))
            counts.append(len(self.table("sunk").scan().to_arrow()))
        return counts

    def limited(self) -> int:
        frame = self.stream("saved", **{"read.stream.maxRowsPerTrigger": "4"})
        return self._counted(frame)

    def time(self) -> int:
        return self._type("TIME")

    def variant(self) -> int:
        return self._type("VARIANT")

    def register(self) -> bool:
        lakecore_spark.register(self.session)
        return True

    def _type(self, kind: str) -> int:
        table = self.catalog.create_table(f"d.{kind.lower()}", {"columns": ["k INT", f"c {kind}"]})
        return len(table.scan().to_spark(self.session).schema)

    def _run(self, start: Callable[..., Any], frame: DataFrame, name: str) -> None:
        checkpoint = str(self.lake.parent / f"checkpoint-{name}")
        _end(partial(start, frame, self.table(name), checkpoint, parallelism=2, availableNow=True))

    def _counted(self, frame: DataFrame) -> int:
        counts: list[int] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sum(counts)


STEPS = (
    "write", "compact", "cancel", "read", "partitions", "join", "files", "register", "save", "loaded", "pushed",
    "copy", "sunk", "limited", "time", "variant",
)  # fmt: skip


def _end(start: Callable[[], Any]) -> None:
    """Wait for the end of a query. Spark gives a new Python process ten seconds, which may be too few on a busy machine:
    the query is then started again, as a user would.
    """
    for _ in range(5):
        try:
            start().awaitTermination()
            return
        except StreamingQueryException as err:
            if "Python worker failed to connect back" not in str(err):
                raise
    start().awaitTermination()


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as err:  # noqa: BLE001 - what refused the step is its outcome
        return f"{type(err).__name__}: {err}"


def main(lake: Path) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    pipeline = Pipeline(session, lake)
    found = {step: outcome(partial(getattr(pipeline, step))) for step in STEPS}
    session.stop()
    print(json.dumps({"pyspark": pyspark.__version__, **found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
