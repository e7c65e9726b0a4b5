"""This module writes the rows that `read` prints: JSON lines, a table, CSV, or an Arrow stream or Parquet
file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakecore.cli.output import table_of
from lakecore.cli.session import Session
from lakecore.cli.tables.formats import OutputFormat
from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.row.json_rows import batch_to_json
from lakecore.row.text_columns import column_texts
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

__all__ = ["RowOutput", "json_lines"]


_BINARY = (OutputFormat.ARROW, OutputFormat.PARQUET)


def json_lines(batch: pa.RecordBatch, row_type: RowType) -> Iterator[str]:
    """Format one JSON object a row; in a batch with `_VALUE_KIND`, `_kind` comes first."""
    if KIND_NAME not in batch.schema.names:
        yield from batch_to_json(batch, row_type, None)
        return
    kinds = batch.column(KIND_NAME).to_pylist()
    rows = batch.select(list(row_type.names))
    insert = RowKind.INSERT.symbol
    for kind, line in zip(kinds, batch_to_json(rows, row_type, insert), strict=True):
        yield line if kind == RowKind.INSERT else line.replace(insert, RowKind(kind).symbol, 1)


class RowOutput:
    """It prints batches of one row type; `path` None is standard output.

    JSON lines of batches that carry `_VALUE_KIND` begin with `_kind`.
    """

    def __init__(self, session: Session, row_type: RowType, path: str | None) -> None:
        self._session = session
        self._row_type = row_type
        self._path = path
        self.rows = 0

    def write(self, batches: Iterable[pa.RecordBatch], form: OutputFormat) -> None:
        """Print all batches. Raises InvalidInputError for binary formats on a terminal, UnavailableError."""
        if self._path is None and form in _BINARY and sys.stdout.isatty():
            raise InvalidInputError(
                f"--format {form.value} is binary: name a file with --output, or use a pipe"
            )
        if form is OutputFormat.TABLE and self._path is None:
            self._table(self._count(batches))
            return
        with self._open() as stream:
            writer = {
                OutputFormat.JSONL: self._json_lines,
                OutputFormat.TABLE: self._csv,
                OutputFormat.CSV: self._csv,
                OutputFormat.ARROW: self._arrow,
                OutputFormat.PARQUET: self._parquet,
            }[form]
            writer(self._count(batches), stream)

    def _count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.rows += batch.num_rows
            yield batch

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """Open standard output, or a file that gets its name when it is complete."""
        if self._path is None:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        partial = f"{self._path}.partial"
        try:
            with open(partial, "wb") as stream:
                yield stream
            os.replace(partial, self._path)
        except BaseException as err:
            if os.path.exists(partial):
                os.remove(partial)
            if isinstance(err, OSError):
                raise UnavailableError(f"output file {self._path} cannot be written: {err.strerror}") from err
            raise

    def _json_lines(self, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
        for batch in batches:
            stream.writelines(f"{line}\n".encode() for line in json_lines(batch, self._row_type))

    def _csv(self, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
        fields = self._row_type.fields
        schema = pa.schema([pa.field(field.name, pa.string()) for field in fields])
        with pa_csv.CSVWriter(
            stream, schema, write_options=pa_csv.WriteOptions(quoting_style="needed")
        ) as out:
            for batch in batches:
                columns = [column_texts(batch.column(field.name), field.type) for field in fields]
                out.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

    def _arrow(self, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
        schema = arrow_schema(self._row_type)
        with pa.ipc.new_stream(stream, schema) as out:
            for batch in batches:
                out.write_batch(batch.cast(schema))

    def _parquet(self, batches: Iterable[pa.RecordBatch], stream: IO[bytes]) -> None:
        schema = arrow_schema(self._row_type)
        with pq.ParquetWriter(stream, schema, compression="zstd") as out:
            for batch in batches:
                out.write_batch(batch.cast(schema))

    def _table(self, batches: Iterable[pa.RecordBatch]) -> None:
        names = self._row_type.names
        rows: list[tuple[str | None, ...]] = []
        for batch in batches:
            texts = [column_texts(batch.column(f.name), f.type).to_pylist() for f in self._row_type.fields]
            rows += zip(*texts, strict=True)
        self._session.out.print(table_of(names, rows))
