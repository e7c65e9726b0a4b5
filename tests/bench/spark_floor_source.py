"""The least that a data source in Python can do: hand over batches that are in memory, and take batches and drop them.

Spark's own part of a read or a write through Python is what these cost. Nothing of lakecore is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

__all__ = ["FLOOR", "FloorSource", "dropped"]

FLOOR = "floor"


class FloorSource(DataSource):  # type: ignore[misc] # pyspark is not seen by mypy
    """Its option `path` is a directory with a file of Arrow's IPC format, not compressed, for each partition, which is
    mapped into memory: its batches are used as they are.
    """

    @classmethod
    def name(cls) -> str:
        return FLOOR

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        with pa.memory_map(_files(self.options["path"])[0]) as source:
            return from_arrow_schema(pa.ipc.open_file(source).schema)

    def reader(self, schema: Any) -> _Reader:
        return _Reader(_files(self.options["path"]))

    def writer(self, schema: Any, overwrite: bool) -> _Writer:
        return _Writer()


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file = pa.ipc.open_file(pa.memory_map(partition.value))
        for number in range(file.num_record_batches):
            yield file.get_batch(number)


@dataclass
class _Count(WriterCommitMessage):  # type: ignore[misc]
    rows: int


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Count(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is stored."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was stored."""


def dropped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count and drop the batches of a task of `mapInArrow`, as `lakecore.spark.write` takes its rows."""
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def _files(path: str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path))
