"""Writes and reads of a history that go through a session of Spark: in turns by the format `lakecore`, and by
`lakecore.spark.write` and `Scan.to_spark`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakecore import spark as lakecore_spark
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import UnsupportedError
from lakecore.metadata.options import BucketMode
from lakecore.row.json_rows import json_to_batch
from lakecore.table import Table
from tests.fuzz.history import Step
from tests.fuzz.java_steps import partition_text
from tests.fuzz.row_lines import inserts
from tests.support.spark_source import canonical_rows

__all__ = ["ThroughSpark", "session"]

_OPTIONS = {"snapshot": "scan.snapshot-id", "tag": "scan.tag-name", "where": "where", "branch": "branch"}


class ThroughSpark:
    """A way of the fuzzer. `done` counts by what it wrote and read."""

    def __init__(self, opened: SparkSession) -> None:
        self.session = opened
        self.done: Counter[str] = Counter()

    def write(self, table: Table, step: Step) -> None:
        """The rows of a step have an order: one task has them, so that they keep it. A save takes no option
        `write-only`, and the history says when a table is compacted: other tables with keys are not saved to.
        """
        batch = json_to_batch(map(json.dumps, step.rows), table.schema.row_type)
        frame = self.session.createDataFrame(_as_spark_has_it(batch)).coalesce(1)
        moves = table.options.bucket_mode is BucketMode.KEY_DYNAMIC
        only_written = table.schema.options.get("write-only") == "true" or not table.schema.primary_keys
        if moves and not only_written:
            raise UnsupportedError("keys that come twice, and may move between partitions, have no order")
        if only_written and (moves or self.done["save"] <= self.done["spark.write"]):
            self._save(frame, table, step)
            return
        spec = None if not step.partition else partition_text(step.partition)
        handle = table.with_options({"write-only": "true"})  # the history says when it is compacted
        lakecore_spark.write(frame, handle, overwrite=step.op == "overwrite", partitions=spec, parallelism=2)
        self.done["spark.write"] += 1

    def _save(self, frame: DataFrame, table: Table, step: Step) -> None:
        warehouse, database, name = table._stores.paths.table_path.rsplit("/", 2)
        writer = frame.write.format("lakecore").option("warehouse", warehouse)
        if step.partition:
            writer = writer.option("partitions", partition_text(step.partition))
        mode = "overwrite" if step.op == "overwrite" else "append"
        with _refusals():
            writer.mode(mode).save(f"{database.removesuffix('.db')}.{name}")
        self.done["save"] += 1

    def read(
        self, catalog: FilesystemCatalog, name: str, *, branch: str | None = None, **at: Any
    ) -> list[str]:
        """All rows, of the columns of the scan."""
        table = catalog.load_table(name)
        scan = (table if branch is None else table.at_branch(branch)).scan(**at)
        with _refusals():
            if self.done["spark.read"] <= self.done["to_spark"]:
                reader = self.session.read.format("lakecore").option("warehouse", catalog.warehouse)
                for key, value in {**at, "branch": branch}.items():
                    reader = reader if value is None else reader.option(_OPTIONS[key], f"{value}")
                rows = _collect(reader.load(name))
                self.done["spark.read"] += 1
            else:
                rows = _collect(scan.to_spark(self.session))
                self.done["to_spark"] += 1
        return inserts(canonical_rows(rows, scan.row_type, "+I"))


def _as_spark_has_it(batch: pa.RecordBatch) -> pa.Table:
    """Spark takes times of 64 bits only."""
    rows = pa.Table.from_batches([batch])
    for at, field in enumerate(rows.schema):
        if pa.types.is_time32(field.type):
            rows = rows.set_column(at, field.name, rows.column(at).cast(pa.time64("us")))
    return rows


def _collect(frame: DataFrame) -> pa.Table:
    """`DataFrame.toArrow` without its cast, which fails on a null VARIANT: the parts of one cannot be null."""
    return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))


@contextmanager
def _refusals() -> Iterator[None]:
    """Spark wraps the errors of a source: a refusal is raised as such."""
    try:
        yield
    except PySparkException as err:
        text = str(err)
        if "UnsupportedError: " not in text:
            raise
        raise UnsupportedError(text.rpartition("UnsupportedError: ")[2].splitlines()[0]) from err


@contextmanager
def session() -> Iterator[SparkSession]:
    """A local session of two cores."""
    root = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    # a DataFrame made of Arrow has zones only where the table has
    builder = builder.config("spark.sql.timestampType", "TIMESTAMP_NTZ")
    opened = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    opened.sparkContext.setLogLevel("OFF")
    try:
        yield opened
    finally:
        opened.stop()
