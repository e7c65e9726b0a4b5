"""This module has the reader of a streaming query: Spark keeps its offsets, executors read its
micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.jobs.runner.one_table import OneTableLake
from lakecore.maintain.alignment_store import AlignmentStore
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.read.columns.kind_texts import kind_texts
from lakecore.read.source.alignment.rule import AlignmentRule
from lakecore.read.source.batch_limits import UNLIMITED, BatchLimits
from lakecore.read.source.micro_batch import MicroBatches, Work
from lakecore.read.source.readable import Readable
from lakecore.read.source.stream_offset import StreamOffset
from lakecore.read.source.stream_view import StreamSelection
from lakecore.scan.startup import Startup
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.partitions import pack_parts
from lakecore.spark.data_source.request import Parallelism
from lakecore.spark.data_source.spark_types import KIND_COLUMN
from lakecore.spark.data_source.worker_memory import skip_in_collections
from lakecore.spark.group_member import StoredMember
from lakecore.table import Table

__all__ = ["StreamRead", "StreamReader", "WholeStreamReader"]

_INITIAL = {"initial": True}
"""The stream has no position yet: where it begins is found with its first micro-batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRead:
    """It says what a query reads of a table."""

    table: Readable
    selection: StreamSelection
    consumer: str | None
    limits: BatchLimits
    alignment: AlignmentRule | None
    """The stream waits for others of this group."""
    parallelism: Parallelism
    kinds: bool
    """The rows have a last column with their kind."""


class StreamReader(DataSourceStreamReader):  # type: ignore[misc] # pyspark is not seen by mypy
    """It reads the micro-batches of a query. It is pickled: executors get their own work only.

    Spark 4.2 asks how far a micro-batch goes in one way (`StreamReaderWithLimits`), and earlier versions ask
    in another (`WholeStreamReader`).
    """

    def __init__(self, read: StreamRead, columns: ColumnsForSpark) -> None:
        self._read = read
        self._columns = columns
        self._batches: MicroBatches | None = None
        self._member: StoredMember | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle, without what only the driver's side needs."""
        return {**self.__dict__, "_batches": None, "_member": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        """Return a marker: Spark does not keep the first offset, so the end of the first batch has it."""
        return dict(_INITIAL)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return what the tasks of a micro-batch read; see `MicroBatches.work`."""
        last = offset_of(end)
        work = () if last is None else self.planner().work(offset_of(start), last)
        most = self._read.parallelism.requested or self._read.parallelism.most
        packed = pack_parts([_Piece(one) for one in work], most)
        return [InputPartition(tuple(pair for piece in group for pair in piece.work)) for group in packed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the work of a task; Spark makes one without work for an empty micro-batch."""
        for rows, part in partition.value or ():
            for batch in rows.read(part, kinds=True):
                if batch.num_rows:
                    yield self._columns.convert(self._with_kinds(batch))
        skip_in_collections()

    def commit(self, end: Mapping[str, Any]) -> None:
        """Store the position of the consumer: Spark has committed all micro-batches up to `end`."""
        offset = offset_of(end)
        if offset is not None:
            self.planner().acknowledge(offset)

    def stop(self) -> None:
        """Leave the alignment group; nothing else is held open."""
        if self._member is not None:
            self._member.leave()

    def end_of_batch(self, start: Mapping[str, Any], limits: BatchLimits) -> dict[str, Any]:
        """Return the end of the next micro-batch; see `MicroBatches.latest`."""
        offset = self.planner().latest(offset_of(start), limits)
        return dict(_INITIAL) if offset is None else offset.to_json()

    def planner(self) -> MicroBatches:
        """Return the plans of this stream, which is opened at the first call."""
        if self._batches is None:
            read = self._read
            if read.alignment is not None:
                self._member = _group_member(read.table, read.alignment)
            self._batches = MicroBatches(
                read.table,
                Startup.from_options(read.table.schema.options),
                read.selection,
                consumer=read.consumer,
                group=self._member,
            )
        return self._batches

    def _with_kinds(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the kinds as text. Raises UnsupportedError for a row that is no insert, if
        kinds are not read.
        """
        kinds = batch.column(KIND_NAME)
        if self._read.kinds:
            return batch.append_column(KIND_COLUMN, kind_texts(kinds))
        other = np.flatnonzero(kinds.to_numpy(zero_copy_only=False))
        if len(other):
            symbol = RowKind(kinds[int(other[0])].as_py()).symbol
            raise UnsupportedError(
                f"table {self._read.table.name}: the stream has a row of kind {symbol}, and without its "
                f"kind it would be taken for a new row; set the option kinds=true, which adds the column "
                f"{KIND_COLUMN}"
            )
        return batch


class WholeStreamReader(StreamReader):
    """It is for Spark before 4.2, which asks how far the stream goes without saying where it is, and limits
    nothing: each micro-batch has all that is there.

    A query that begins asks for the end of its first micro-batch. A query that goes on first asks for the
    partitions of the last one in its checkpoint: that is how the reader gets to know its position.
    """

    def __init__(self, read: StreamRead, columns: ColumnsForSpark) -> None:
        super().__init__(read, columns)
        self._position: Mapping[str, Any] | None = None

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - of Spark
        """Return the end of the next micro-batch, which begins where the one before ended."""
        end = self.end_of_batch(self._position or _INITIAL, UNLIMITED)
        self._position = end
        return end

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return what the tasks of a micro-batch read; nothing where Spark only tells the position."""
        if self._position is None:
            self._position = end
        return [] if start == end else super().partitions(start, end)


def _group_member(table: Readable, rule: AlignmentRule) -> StoredMember:
    assert isinstance(table, Table)
    lake = OneTableLake(table)
    return StoredMember(AlignmentStore(lake.file_io, lake.warehouse), rule, table.name, table._stores.clock)


@dataclass(frozen=True, slots=True)
class _Piece:
    work: Work

    @property
    def size(self) -> int:
        """Return the bytes of the splits."""
        splits = (part[0] if isinstance(part, tuple) else part for _, part in self.work)
        return sum(split.size for split in splits)


def offset_of(raw: Mapping[str, Any]) -> StreamOffset | None:
    return None if raw == _INITIAL else StreamOffset.from_json(raw)
