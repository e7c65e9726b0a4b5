"""This module has the class that Spark finds under the name `lakecore`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from lakecore.catalog.catalog_options import METASTORE
from lakecore.catalog.config import read_config
from lakecore.catalog.configured.catalog_names import QualifiedName, qualified
from lakecore.catalog.filesystem import load_catalog
from lakecore.catalog.registry import kind_option_keys
from lakecore.errors import InvalidInputError, InvalidOptionError, LakeError, UnsupportedError
from lakecore.metadata.option_rules.event_times import READ_WATERMARK, EventTimeRule
from lakecore.metadata.option_rules.reading_options import check_micro_batch_options
from lakecore.read.source.alignment.rule import GROUP, AlignmentRule
from lakecore.read.source.batch_limits import UNLIMITED
from lakecore.read.source.readable import Readable
from lakecore.read.source.row_parts.part_rows import with_parts
from lakecore.read.source.row_parts.selection import choose_columns
from lakecore.read.source.scan import Scan
from lakecore.read.source.stream_view import StreamSelection, StreamView, TableRows
from lakecore.spark.data_source.columns import ColumnsForSpark, projected_columns
from lakecore.spark.data_source.places.catalog_table import created_options, options_of_schema, with_options
from lakecore.spark.data_source.reader import PushingScanReader, ScanReader
from lakecore.spark.data_source.request import (
    FORMAT,
    PATH,
    TABLE,
    PushFilters,
    SourceRequest,
    TablePlace,
)
from lakecore.spark.data_source.sink_request import SinkRequest, check_columns, warn_without_shuffle
from lakecore.spark.data_source.spark_types import KIND_COLUMN, spark_schema
from lakecore.spark.data_source.stream_reader import StreamRead, StreamReader, WholeStreamReader
from lakecore.spark.data_source.writer import BatchWriter
from lakecore.spark.versions import CONDITIONS, STREAM_LIMITS, STREAM_SINK, check_feature, has_feature
from lakecore.system.system_table import SystemTable
from lakecore.table import Table
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakecore.spark.data_source.stream_writer import StreamWriter

__all__ = ["LakecoreSource", "load_place", "open_scan"]


class LakecoreSource(DataSource):  # type: ignore[misc] # pyspark is not seen by mypy
    """This class is the format `lakecore`. Spark makes an object for each DataFrame, and asks it for a reader
    when the first query of the DataFrame is planned.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the read. Raises the errors of `open_scan`.

        Spark does not tell whether the read is a stream: where only a stream can begin so, the columns are
        those of the table. For a table of Spark's own catalog that is created, they have its options.
        """
        options = self._options()
        table_options = created_options(options)
        request = _request_of(options if table_options is None else table_options)
        columns = spark_schema(_row_type(request), request.nanoseconds, kinds=request.kinds)
        return columns if table_options is None else with_options(columns, table_options)

    def reader(self, schema: StructType) -> ScanReader:
        """Return a reader of the snapshot that is the latest now, or of the one that the options name.

        `schema` is that of the user, or else what `schema` returned, for a table of Spark's own catalog when
        it was created. Raises the errors of `open_scan`, and
        InvalidInputError for a column that the table does not have with its type.
        """
        request = self._request(schema)
        if request.stream_options:
            raise InvalidOptionError(
                f"option {request.stream_options[0]}: it is for spark.readStream, and has no effect on "
                "spark.read; leave it out"
            )
        scan = open_scan(request)
        columns = projected_columns(schema, scan.row_type, request.nanoseconds)
        if not columns.fields:
            raise InvalidInputError("the given schema has no columns; name at least one column")
        chosen = Scan(with_parts(scan.source, columns), scan.where, columns.names, scan.limit)
        kind = _reader_class(request.push_filters)
        return kind(chosen, ColumnsForSpark(schema, request.nanoseconds), request.parallelism)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - of Spark
        """Return a reader of a streaming query, which begins as the options `scan.…` say, or at the offset in
        its checkpoint.

        Raises the errors of `Table.stream`, InvalidInputError for a column that the table does not have with
        its type, UnsupportedError for a read that only a batch can be.
        """
        request = self._request(schema)
        table, view = _stream_source(request)
        fields = [field for field in schema.fields if not (request.kinds and field.name == KIND_COLUMN)]
        columns = projected_columns(type(schema)(fields), view.row_type, request.nanoseconds)
        if not columns.fields:
            raise InvalidInputError("the given schema has no columns; name at least one column")
        read = StreamRead(
            table=table,
            selection=replace(StreamSelection.of(view, request.where), columns=columns),
            consumer=None,
            limits=request.limits,
            alignment=_alignment(table),
            parallelism=request.parallelism,
            kinds=request.kinds,
        )
        return _stream_reader_class(request)(read, ColumnsForSpark(schema, request.nanoseconds))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return a writer of the table. `overwrite` replaces partitions or all rows, as options say.

        Raises NotFoundError without the table, InvalidInputError for columns that it does not take,
        InvalidOptionError, UnsupportedError before rows are written.
        """
        options = self._options()
        request = SinkRequest.parse(options, _keys_of_kind(options))
        handle = _sink_table(request, "write", schema)
        write = handle.new_batch_write(overwrite=overwrite, partitions=request.partitions)
        return BatchWriter(write.with_buckets_at_start())

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - of Spark
        """Return a writer of the micro-batches of a query.

        Raises NotFoundError without the table, InvalidInputError for columns that it does not take,
        InvalidOptionError, UnsupportedError before rows are written.
        """
        check_feature(STREAM_SINK, f"writeStream with the format {FORMAT}")
        from lakecore.spark.data_source.stream_writer import StreamWriter

        options = self._options()
        request = SinkRequest.of_stream(options, _keys_of_kind(options))
        handle = _sink_table(request, "write_stream", schema)
        return StreamWriter(handle, overwrite=overwrite)

    def _request(self, schema: StructType) -> SourceRequest:
        """Parse the options, with those of a table of Spark's own catalog where they name none."""
        options = self._options()
        names_table = any(option.key in options for option in (PATH, TABLE))
        return _request_of(options if names_table else {**options_of_schema(schema), **options})

    def _options(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.options.items()}


def _keys_of_kind(raw: Mapping[str, str]) -> frozenset[str]:
    """Return the options that only the kind of catalog has which `metastore` names."""
    metastore = raw.get(METASTORE)
    return frozenset() if metastore is None else kind_option_keys(metastore)


def _request_of(options: Mapping[str, str]) -> SourceRequest:
    return SourceRequest.parse(options, _keys_of_kind(options))


def _sink_table(request: SinkRequest, function: str, schema: StructType) -> Table:
    """Return the table or branch to which rows with this schema are written; `function` shuffles rows to its
    writers.
    """
    table = load_place(request.place, request.table_options)
    handle = table if request.branch is None else table.at_branch(request.branch)
    check_columns(handle, schema)
    warn_without_shuffle(handle, function)
    return handle


def _reader_class(push_filters: PushFilters) -> type[ScanReader]:
    if push_filters is PushFilters.NEVER:
        return ScanReader
    check_feature(CONDITIONS, "option push-filters=once")
    return PushingScanReader


def _stream_reader_class(request: SourceRequest) -> type[StreamReader]:
    """Return the reader for this Spark. Raises UnsupportedError for limits that it does not have."""
    if not has_feature(STREAM_LIMITS):
        if request.limits != UNLIMITED:
            check_feature(STREAM_LIMITS, f"options {', '.join(request.limit_options)}")
        return WholeStreamReader
    from lakecore.spark.data_source.limits_reader import StreamReaderWithLimits

    return StreamReaderWithLimits


def _alignment(table: Readable) -> AlignmentRule | None:
    """Return the alignment group of a stream, None without one. Raises InvalidOptionError, and
    UnsupportedError where Spark limits no micro-batches.
    """
    rule = AlignmentRule.from_options(table.schema.options)
    if rule is None:
        if READ_WATERMARK.key in table.schema.options:
            raise InvalidOptionError(
                f"option {READ_WATERMARK.key}: it has no effect without {GROUP.key}; give both, or leave it "
                "out"
            )
        return None
    check_feature(STREAM_LIMITS, f"option {GROUP.key}")
    EventTimeRule.of_reads(table.schema.row_type, table.schema.options)
    return rule


def _stream_source(request: SourceRequest) -> tuple[Readable, StreamView]:
    """Return the table of a stream, and which rows of it the stream has. Raises UnsupportedError for what a
    stream does not do.
    """
    if request.limit is not None:
        raise UnsupportedError("option limit: a stream has no last row; leave it out")
    if request.push_filters is PushFilters.ONCE:
        raise UnsupportedError(
            "option push-filters: Spark hands no conditions to streams; use the option where"
        )
    table_or_log: Table | SystemTable = load_place(request.place, request.table_options)
    if isinstance(table_or_log, Table):
        table = table_or_log if request.branch is None else table_or_log.at_branch(request.branch)
        check_micro_batch_options(table._overrides, table.schema)
        return table, TableRows.of_table(table, update_before=request.update_before)
    log, view = table_or_log.stream_source(request.branch, update_before=request.update_before)
    check_micro_batch_options(log._overrides, log.schema, is_log=table_or_log.is_log)
    return log, view


def _row_type(request: SourceRequest) -> RowType:
    try:
        return open_scan(request).row_type
    except LakeError:
        if not request.is_stream:
            raise
        row_type = _stream_source(request)[1].row_type
        return choose_columns(request.columns, row_type)


def load_place(place: TablePlace, options: Mapping[str, str]) -> Table:
    """Load the table with options for this handle; without another place its name may be `catalog.db.t`.

    Raises NotFoundError naming what exists.
    """
    name = QualifiedName(place.catalog, place.table)
    if place.catalog is None:
        name = qualified(place.table, read_config(os.environ))
    catalog = load_catalog(name.catalog, create_warehouse=False, **place.catalog_options)
    return catalog.load_table(name.rest, options)


def open_scan(request: SourceRequest) -> Scan:
    """Open the table and choose the snapshot. Raises NotFoundError naming what exists, InvalidOptionError,
    UnsupportedError for what this release cannot read.
    """
    table = load_place(request.place, request.table_options)
    return table.scan(
        branch=request.branch, where=request.where, columns=request.columns, limit=request.limit
    )
