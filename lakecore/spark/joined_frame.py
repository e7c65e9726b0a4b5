"""This module joins DataFrames with the rows of a table by lookup tables in the Python workers of Spark.

A worker process loads one lookup table for each join, keeps it for later tasks and micro-batches, and follows
the table at the refresh interval of its options. Spark runs one worker a core and reuses them. Where lookups
read the files that keys need, all workers of an executor share the local copies of these files, in the
executor's local directories, which Spark removes with it. Where a lookup table has all rows, each worker
loads them, or, with a shuffle, those of the buckets of each task that it runs.
"""

from __future__ import annotations

import atexit
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.lineage.report import has_listeners, without_lineage
from lakecore.read.source.lineage.read_versions import report_lookup
from lakecore.spark import BucketShuffle
from lakecore.spark.bucket_shuffle import TaskBuckets, cast_key, shuffle_by_bucket
from lakecore.spark.data_source.columns import ColumnsForSpark
from lakecore.spark.data_source.places.arrow_tasks import map_in_arrow
from lakecore.spark.data_source.request import NANOSECONDS
from lakecore.spark.data_source.spark_types import spark_schema
from lakecore.types.arrow import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakecore.lookup.tables.lookup_table import LookupTable
    from lakecore.table import Table

__all__ = ["JoinRequest", "join_columns", "join_frame"]

_MOST_TABLES = 8
"""A worker keeps so many lookup tables; the one that was not used for the longest time is closed."""
_LOCAL_DIRECTORIES = "SPARK_LOCAL_DIRS"
"""Spark sets this variable for Python workers, to the local directories of their executor."""
_KEY = "_lakecore_lookup_"
_HOW = ("left", "inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """It says what a lookup join is asked for."""

    on: Mapping[str, str]
    """These columns of the DataFrame are looked up in these columns of the table."""
    columns: tuple[str, ...]
    """These columns of the table are added."""
    how: str
    """It is `left` or `inner`."""
    options: Mapping[str, str]
    """These are options of the lookup table."""


class _Worker:
    """The lookup tables of this process. Tasks of one worker process run one after the other, and threads of
    local tests side by side.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, LookupTable] = OrderedDict()
        atexit.register(self.close)
        if directories := os.environ.get(_LOCAL_DIRECTORIES):
            from lakecore.lookup.copies.process_cache import share_process_cache

            share_process_cache(directories.split(","))

    def table(self, name: str, make: Callable[[], LookupTable]) -> LookupTable:
        """Return the lookup table of that name, which is made at the first call."""
        with self._lock:
            table = self._tables.pop(name, None) or make()
            self._tables[name] = table
            while len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)[1].close()
            return table

    def close(self) -> None:
        """Release all lookup tables."""
        with self._lock:
            while self._tables:
                self._tables.popitem()[1].close()


_worker: _Worker | None = None


def _of_this_process() -> _Worker:
    global _worker
    if _worker is None:
        _worker = _Worker()
    return _worker


def join_frame(frame: DataFrame | BucketShuffle, table: Table, request: JoinRequest) -> DataFrame:
    """Return the DataFrame with the columns of the rows that it matches; see `lakecore.spark.lookup_join`."""
    from pyspark.sql.types import StructType

    shuffle = frame if isinstance(frame, BucketShuffle) else None
    frame = frame.frame if isinstance(frame, BucketShuffle) else frame
    _check(frame, table, request)
    row_type = table.schema.row_type
    columns = tuple(name for name in request.columns if name not in request.on.values())
    handling = NANOSECONDS.default
    added = spark_schema(row_type.select(columns), handling)
    schema = StructType([*frame.schema.fields, *added.fields])
    kinds = arrow_schema(row_type.select(tuple(request.on.values())))
    lookup = table.with_options(request.options) if request.options else table
    buckets = None if shuffle is None else TaskBuckets.of(lookup, request.on, columns, shuffle.tasks)
    task = _JoinTask(table, request, columns, tuple(kinds.types), ColumnsForSpark(added, handling), buckets)
    if shuffle is not None:
        frame = shuffle_by_bucket(shuffle, table, request.on)
    if has_listeners():
        report_lookup(table, table._stores.snapshots.latest_id(), (*request.on.values(), *columns))
    return map_in_arrow(frame, task, schema)


def _check(frame: DataFrame, table: Table, request: JoinRequest) -> None:
    """Raise InvalidInputError for what no task could do, before one is started."""
    if request.how not in _HOW:
        raise InvalidInputError(f"how={request.how!r}: a lookup join is {' or '.join(_HOW)}")
    if not request.on:
        raise InvalidInputError("on={}: a lookup join needs at least one column; name the columns of the key")
    for name in request.on:
        if name not in frame.columns:
            raise InvalidInputError(
                f"column {name!r}, which is looked up, is not in the DataFrame; it has the columns "
                f"{', '.join(frame.columns)}"
            )
    names = table.schema.row_type.names
    for name in (*request.on.values(), *request.columns):
        if name not in names:
            raise InvalidInputError(
                f"column {name!r} is not in table {table.name}; it has the columns {', '.join(names)}"
            )
    for name in request.columns:
        if name in frame.columns and name not in request.on.values():
            raise InvalidInputError(
                f"column {name!r} is in the DataFrame and in table {table.name}: rename it, or name other "
                "columns"
            )


@dataclass(frozen=True)
class _JoinTask:
    """It joins the batches of a task. It is pickled with the table's handle, so that credentials are in the
    closure and not in the text of the plan.
    """

    table: Table
    request: JoinRequest
    columns: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    convert: ColumnsForSpark
    shares: TaskBuckets | None
    """The rows come with the number of their task; None: they were not shuffled by bucket."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table: LookupTable | None = None
        for batch in batches:
            if batch.num_rows:
                if table is None:
                    buckets = None if self.shares is None else self.shares.of_this_task()
                    table = _of_this_process().table(self._name(buckets), partial(self._open, buckets))
                yield from self._join(table, batch if self.shares is None else self.shares.without(batch))

    def _join(self, lookup: LookupTable, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        names = [f"{_KEY}{number}" for number in range(len(self.kinds))]
        keys = [cast_key(batch, name, kind) for name, kind in zip(self.request.on, self.kinds, strict=True)]
        left_batch = pa.RecordBatch.from_arrays([*batch.columns, *keys], [*batch.schema.names, *names])
        on = dict(zip(names, self.request.on.values(), strict=True))
        for joined in lookup.join_batches([left_batch], on, self.request.how):
            added = self.convert.convert(joined.select(list(self.columns)))
            columns = joined.select(list(batch.schema.names)).columns
            schema = pa.schema([*batch.schema, *added.schema])
            yield pa.RecordBatch.from_arrays([*columns, *added.columns], schema=schema)

    def _open(self, buckets: tuple[int, ...] | None) -> LookupTable:
        request = self.request
        with without_lineage():  # the driver has reported the read
            return self.table.new_lookup(
                tuple(request.on.values()),
                columns=tuple(dict.fromkeys((*request.on.values(), *self.columns))),
                options=request.options,
                buckets=buckets,
            )

    def _name(self, buckets: tuple[int, ...] | None) -> str:
        request = self.request
        parts = (tuple(request.on.values()), self.columns, sorted(request.options.items()), buckets)
        return sha256(pickle.dumps((self.table, parts))).hexdigest()


def join_columns(on: Sequence[str] | Mapping[str, str] | str) -> dict[str, str]:
    """Return the columns of a join as a mapping: names stand for columns of one name on both sides."""
    if isinstance(on, str):
        on = [on]
    return dict(on) if isinstance(on, Mapping) else {name: name for name in on}
