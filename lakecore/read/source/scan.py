"""This module has a batch read of anything that has rows: a snapshot, the changes between two, a system
table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, get_args

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.display import html_table, one_line
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate, columns_of, conjunction
from lakecore.prefetch import round_robin
from lakecore.read.source.lineage.read_versions import report_reads
from lakecore.read.source.resolve_blobs import ResolvedBlobRows, without_resolved_blobs
from lakecore.read.source.row_parts.part_rows import with_parts
from lakecore.read.source.row_parts.selection import check_list, choose_columns
from lakecore.read.source.scan_facts import (
    Span,
    certain_counts,
    exact_splits,
    partition_predicate,
)
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.plan import plan_sections
from lakecore.scan.split import SplitPlan
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from lakecore.read.source.dataset import ScanDataset
    from lakecore.read.source.scan_report import ScanReport

__all__ = ["RowSource", "Scan", "checked_columns"]

_LARGE = 16 << 20
_MOST_WORKERS = 4


class RowSource(Protocol):
    """This source has rows of one type, in parts that can be read alone."""

    @property
    def description(self) -> str:
        """The name of the table, and what of it is read."""

    @property
    def row_type(self) -> RowType:
        """Return all columns of the source."""

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        """Return the parts, without those that certainly hold no row for which `where` is true."""

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part for which `where` is true; with `kinds` the last column is
        `_VALUE_KIND`.
        """


@dataclass(frozen=True)
class Scan:
    """This is a batch read. Every call of a `to_…` method reads again."""

    source: RowSource
    """This source is read."""
    where: Predicate | None
    """This is the condition on rows; None means all rows."""
    columns: tuple[str, ...]
    """These are the names of the columns that are read, in their order."""
    limit: int | None
    """At most so many rows are read; None means all."""
    _condition: str = field(default="", compare=False)
    """`where` as it was written; empty if it was not written as text."""

    @classmethod
    def of(
        cls,
        source: RowSource,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Check the selection. `a.b` in `columns` is the field `b` of a ROW: the column `a` then has only the
        fields that are named, in the order of the table, and a row that is null stays null.

        Raises InvalidInputError for an unknown column, a malformed `where` or a wrong limit, UnsupportedError
        for fields of rows in an ARRAY, MAP or MULTISET.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise InvalidInputError(f"limit {limit!r}: it must be a whole number that is not negative")
        if not (where is None or isinstance(where, (str, *get_args(Predicate)))):
            raise InvalidInputError(f'filter {where!r}: write a condition as text, such as "id > 5"')
        predicate = parse_where(where, source.row_type) if isinstance(where, str) else where
        condition = where if isinstance(where, str) else ""
        chosen = choose_columns(columns, source.row_type)
        return cls(with_parts(source, chosen), predicate, chosen.names, limit, condition)

    def __repr__(self) -> str:
        """Return what is read on one line; reads nothing."""
        return one_line("Scan", self.source.description, self._facts())

    def _repr_html_(self) -> str:
        """Return a small table for notebooks; reads nothing."""
        return html_table("Scan", self.source.description, self._facts())

    def _facts(self) -> dict[str, object]:
        condition = self._condition
        if self.where is not None and not condition:
            condition = f"conditions on {', '.join(sorted(columns_of(self.where)))}"
        return {"columns": self.columns, "where": condition, "limit": self.limit}

    @property
    def row_type(self) -> RowType:
        """Return the columns that are read."""
        return self.source.row_type.select(self.columns)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that are read, with their Arrow types."""
        return arrow_schema(self.row_type)

    def plan(self) -> Sequence[Any]:
        """Return the parts to read (of a table: its splits). Raises NotFoundError when the snapshot
        expired.
        """
        return self.source.plan(self.where)

    def plans(self, most_files: int = GROUP_FILES) -> Iterator[Sequence[Any]]:
        """Yield the parts to read in plans of at most some `most_files` files each, one after the other: the
        memory that they take does not grow with the table.

        A plan has some whole partitions, or some buckets of one that is larger. A table of more files costs a
        look at its manifests before the first plan (2 s a million). Of a manifest with files of several plans
        each plan decodes only the blocks (64 KB of entries) in which its own files lie. Smaller tables, and
        other sources, have one plan. It raises as `plan` does.
        """
        return _plans(self.source, self.where, most_files)

    def read(self, part: Any, *, kinds: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of one part; `limit` does not apply here.

        With `kinds` the last column is the row kind, `_VALUE_KIND` (0 insert, 1 and 2 update, 3 delete).
        """
        return self.source.read(part, self.columns, self.where, kinds=kinds)

    def to_batches(self, *, kinds: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches, part by part. For `kinds` see `read`.

        It holds what the merge of a part needs; of a large table some parts are read at once, one per core,
        and their batches alternate. A single large part is cut by keys for that. With a limit parts are read
        one after another.
        """
        report_reads((self,))
        if self.limit is None:
            for parts in self.plans():
                yield from self._batches(parts, kinds=kinds)
                del parts  # before the next plan is made
            return
        rows_left = self.limit
        for part in chain.from_iterable(self.plans()) if rows_left else ():
            for batch in self.read(part, kinds=kinds):
                batch = batch.slice(0, rows_left)
                rows_left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if rows_left == 0:
                    return

    def _batches(self, parts: Sequence[Any], *, kinds: bool) -> Iterator[pa.RecordBatch]:
        """Read some parts of a large table at once, a batch of each in turn."""
        if isinstance(parts, SplitPlan) and parts.size >= _LARGE:
            workers = min(os.cpu_count() or 1, _MOST_WORKERS)
            batches = round_robin(self._readers(parts, workers, kinds=kinds), workers)
        else:
            batches = (batch for part in parts for batch in self.read(part, kinds=kinds))
        with closing(batches):
            for batch in batches:
                if batch.num_rows:
                    yield batch

    def _readers(
        self, parts: SplitPlan, workers: int, *, kinds: bool
    ) -> Iterator[Callable[[], Iterator[pa.RecordBatch]]]:
        """Return a read of each part; where there are fewer parts than workers, parts are cut. The last ones
        of more parts, of which not every worker would have one, are cut if all rows are read.
        """
        source, shares = self.source, -(-workers // max(len(parts), 1))
        rest = len(parts) % workers if shares == 1 and self.where is None else 0
        for number, part in enumerate(parts, 1):
            if not isinstance(source, SnapshotRows):
                yield partial(self.read, part, kinds=kinds)
            elif number > len(parts) - rest:
                for share in source.cut(part, part.size * rest // workers + 1, None):
                    yield partial(source.read_share, share, self.columns, None, kinds=kinds)
            elif shares > 1:
                yield from source.shares(part, shares, self.columns, self.where, kinds=kinds)
            elif (read := source.indexed(part, self.columns, self.where, kinds=kinds)) is not None:
                yield read

    def count(self) -> int:
        """Return the number of rows, at most `limit`.

        It is found in metadata for files whose keys no other file may have, if `where` has conditions on
        partition columns only; other rows are read. Raises the errors of `plan` and `read`.
        """
        rows = exact_splits(self.source, self.where)
        narrow = replace(self, columns=self.columns[:1])
        total = 0
        for parts in self.plans():
            unknown = parts
            if rows is not None and isinstance(parts, SplitPlan):
                sections = plan_sections(parts, rows.context.schema.key_type)
                counts = certain_counts(rows, sections.plan)
                total += int(counts[counts >= 0].sum())
                unknown = sections.joined(counts < 0)
                del sections
            for part in unknown:
                if self.limit is not None and total >= self.limit:
                    return self.limit
                total += sum(batch.num_rows for batch in narrow.read(part))
            del parts, unknown  # before the next plan is made
        return total if self.limit is None else min(total, self.limit)

    def min_max(self) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
        """Return the least and the greatest value of each column, null without one; NaN is left out.

        They are found in metadata for whole numbers, dates and decimals of files whose keys no other file may
        have, if `where` has conditions on partition columns only; other columns and files are read. Raises
        InvalidInputError with a limit, and for columns that have no order.
        """
        if self.limit is not None:
            raise InvalidInputError(
                "the least and the greatest value of some rows are not defined; leave the limit out"
            )
        rows = exact_splits(self.source, self.where)
        spans = {name: Span(self.row_type.field(name)) for name in self.columns}
        for part in chain.from_iterable(_sections_first(rows, plan) for plan in self.plans()):
            open_columns = [
                name for name, span in spans.items() if rows is None or not span.add_certain(rows, part)
            ]
            for batch in replace(self, columns=tuple(open_columns)).read(part) if open_columns else ():
                for name in open_columns:
                    spans[name].add(batch.column(name))
        return {name: span.bounds for name, span in spans.items()}

    def in_partitions(self, rows: Any) -> Scan:
        """Return the same read of the partitions that `rows` name: an Arrow table, or mappings of partition
        columns to values, such as those that the other side of a join has.

        Raises InvalidInputError for a column that is no partition column.
        """
        source = without_resolved_blobs(self.source)
        if not isinstance(source, SnapshotRows):
            raise UnsupportedError(
                f"{self.source.description} is not read by partitions; use a condition on rows"
            )
        predicate = partition_predicate(source.context.schema, rows, source.scanner.table)
        both = (predicate,) if self.where is None else (self.where, predicate)
        return replace(self, where=conjunction(both), _condition="")

    def explain(self) -> ScanReport:
        """Return what a read of this scan would do: its splits, and the files that are left out by what.

        Of a table it costs a plan of all files. Raises the errors of `plan`.
        """
        from lakecore.read.source.scan_report import scan_report  # it knows scans

        return scan_report(self.source, self.where)

    def to_spark(
        self,
        spark: Any,
        *,
        nanoseconds: str = "refuse",
        parallelism: int | None = None,
        reader: str = "auto",
    ) -> Any:
        """Return a DataFrame of PySpark with these rows, planned now and read by the executors of a session.

        `nanoseconds` and `parallelism` are the options `nanoseconds` and `scan.parallelism` of the format
        `lakecore` (docs/spark.md). `reader` is `spark` for Spark's own reader of Parquet, `lakecore` for the
        readers of lakecore in Python workers, or `auto`: Spark's reader for splits whose files have exactly
        these rows and are on a local disk or on HDFS, and lakecore for the others. It costs a read of the
        footer of each file, on the driver; `DataFrame.explain` then shows `FileScan parquet`. Raises the
        errors of `plan`, InvalidOptionError, InvalidInputError, and UnsupportedError with the reason if
        `reader` is `spark` and Spark's reader cannot read all files.
        """
        from lakecore.spark.data_source.frames import scan_frame  # of a higher layer, which knows pyspark

        return scan_frame(spark, self, nanoseconds, parallelism, reader)

    def to_arrow(self) -> pa.Table:
        """Read all rows into memory."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def to_dataset(self) -> ScanDataset:
        """Return a dataset of pyarrow with these rows, into which engines push columns and filters."""
        from lakecore.read.source.dataset import ScanDataset  # it knows scans, and imports much

        return ScanDataset(lambda: self)

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return a relation of DuckDB with these rows, which reads the columns and files that a query needs.

        `connection` None means a new one in memory. It needs DuckDB (`pip install lakecore[duckdb]`).
        """
        if connection is None:
            import duckdb  # an extra

            connection = duckdb.connect()
        return connection.from_arrow(self.to_dataset())

    def to_polars(self) -> Any:
        """Return a LazyFrame of Polars with these rows, which reads the columns and files that a query needs.

        It needs Polars (`pip install lakecore[polars]`).
        """
        import polars  # an extra

        return polars.scan_pyarrow_dataset(self.to_dataset())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a stream of Arrow's C interface, which DataFusion and others read."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Read all rows into a pandas DataFrame. It needs pandas (`pip install lakecore[pandas]`)."""
        return self.to_arrow().to_pandas()


def _sections_first(rows: SnapshotRows | None, plan: Sequence[Any]) -> Iterable[Any]:
    """Yield the parts of a plan; of the splits that merge rows the sections that need no merge first."""
    if not isinstance(plan, SplitPlan):
        return plan
    if rows is None:
        return plan.with_objects()
    sections = plan_sections(plan, rows.context.schema.key_type)
    merges = ~sections.plan.raw_convertible
    return chain(sections.plan.select(~merges).with_objects(), sections.joined(merges).with_objects())


def _plans(source: RowSource, where: Predicate | None, most: int) -> Iterator[Sequence[Any]]:
    if isinstance(source, ResolvedBlobRows):
        yield from _plans(source.source, source.below(where), most)
    elif isinstance(source, SnapshotRows):
        yield from source.plans(where, most)
    else:
        yield source.plan(where)


def checked_columns(columns: Sequence[str] | None, row_type: RowType) -> tuple[str, ...]:
    """Return the names to read, all for None, for readers that read ROWs whole. Raises InvalidInputError
    naming an unknown one.
    """
    names = row_type.names
    if columns is None:
        return names
    check_list(columns)
    for name in columns:
        if name not in names:
            whole = name.partition(".")[0]
            hint = f": fields of a ROW are not read alone here; read {whole}" if whole in names else ""
            raise InvalidInputError(
                f"column {name!r} is not in the table{hint}; the table has the columns {', '.join(names)}"
            )
    return tuple(columns)
