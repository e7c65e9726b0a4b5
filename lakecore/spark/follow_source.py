"""This module has the streaming source of a dedicated compactor: its rows are the tables that are due.

An offset has the number of the round, and the tables of the micro-batch that ends there, each with the id of
its newest snapshot. Spark writes it to the checkpoint before the micro-batch, so a query that was killed
starts again with the same tables. A round in which no table is due gives the offset before, and makes no
micro-batch. It needs Spark 4.2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, UnavailableError
from lakecore.jobs.compact.follow_store import FollowStore
from lakecore.jobs.compact.table_states import TableStates
from lakecore.jobs.runner.lake import Lake
from lakecore.spark.progress import METRICS

__all__ = ["FollowRead", "FollowReader", "source_class"]

logger = logging.getLogger(__name__)

_INITIAL: Mapping[str, Any] = {"round": 0, "tables": {}}
_SCHEMA = pa.schema([("table", pa.string()), ("snapshot", pa.int64()), ("round", pa.int64())])


@dataclass(frozen=True, slots=True)
class FollowRead:
    """It says what a query follows. It is pickled to the process in which Spark plans."""

    lake: Lake
    names: Callable[[], Sequence[str]]
    query: str
    """The query is known under this name in the store."""
    job: str
    """This text is another one for another job."""

    def store(self) -> FollowStore:
        return FollowStore(self.lake.file_io, self.lake.warehouse)


def source_class(name: str, read: FollowRead) -> type[DataSource]:
    """Return a format of Spark with this name. It is pickled by value, so the catalog is in no option."""

    class FollowSource(DataSource):  # type: ignore[misc] # pyspark is not seen by mypy
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return "table STRING, snapshot BIGINT, round BIGINT"

        def streamReader(self, schema: Any) -> FollowReader:  # noqa: N802 - of Spark
            return FollowReader(read)

    return FollowSource


class FollowReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # of pyspark
    """It looks at the tables, one round each time that Spark asks for the end of a micro-batch."""

    def __init__(self, read: FollowRead) -> None:
        self._read: FollowRead | None = read
        self._tables: TableStates | None = None
        self._start: Mapping[str, Any] | None = None
        self._round = 0
        self._only_once = False
        self._end: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle: executors get rows only."""
        return {**self.__dict__, "_read": None, "_tables": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        return dict(_INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end after one round, in which tables that failed do not rest."""
        self._only_once = True

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the tables that are due, or `start` if none is. A table without a change costs one check and
        one small read. Raises the errors of listing the tables.
        """
        if self._end is None or not self._only_once:
            self._end = self._next(start)
        return dict(self._end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the numbers of tables, which Spark shows in the progress of the query; None before the first
        round.
        """
        if self._tables is None or self._end is None:
            return None
        return {METRICS: {"round": self._round, **self._tables.counts(self._round)}}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return one partition with the tables of the micro-batch."""
        if start == end:
            return []
        rows = [(name, int(snapshot), int(end["round"])) for name, snapshot in end["tables"].items()]
        return [InputPartition(tuple(rows))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return a row for each table."""
        rows = [dict(zip(_SCHEMA.names, row, strict=True)) for row in partition.value or ()]
        yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the driver has stored what is done."""

    def stop(self) -> None:
        """Do nothing: nothing is held open."""

    def _next(self, start: Mapping[str, Any]) -> Mapping[str, Any]:
        tables = self._opened_tables()
        if start != self._start:  # a micro-batch has ended since, and the driver has stored what it did
            self._round = int(start["round"])
            self._restore(tables)
            self._start = dict(start)
        self._round += 1
        due = tables.due(self._round, pauses=not self._only_once)
        names = [*due.names, *due.errors]  # the driver reports the errors
        if not names:
            return start
        return {"round": self._round, "tables": {name: _newest(tables, name) for name in names}}

    def _opened_tables(self) -> TableStates:
        if self._tables is None:
            if self._read is None:
                raise TypeError("an executor has no tables to look at")
            self._tables = TableStates(self._read.lake, self._read.names)
        return self._tables

    def _restore(self, tables: TableStates) -> None:
        read = self._read
        if read is None:
            return
        try:
            tables.restore(read.store().load(read.query, read.job))
        except UnavailableError as err:
            logger.warning("what is known of the followed tables could not be read: %s", err)


def _newest(tables: TableStates, name: str) -> int:
    """Return the id of the newest snapshot, 0 where there is none or it cannot be read."""
    try:
        latest = tables.snapshots(name).latest()
    except LakeError:
        return 0
    return 0 if latest is None else latest.id
