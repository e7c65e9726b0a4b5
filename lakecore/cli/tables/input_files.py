"""This module reads the files that `write` and `update-columns` take, which are JSON lines, CSV, Parquet
or Arrow, as record batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakecore.cli.tables.formats import InputFormat
from lakecore.errors import InvalidInputError, NotFoundError
from lakecore.row.json_rows import KIND_COLUMN, json_columns, json_to_batch
from lakecore.row.text_columns import parse_texts
from lakecore.types.datatypes import MAX_LENGTH, AtomicType, DataField, RowType, TypeRoot

__all__ = ["read_columns", "read_input", "typed_values"]

_LINES = 1 << 16
_CSV_BLOCK = 8 << 20


_Reader = Callable[[IO[bytes], RowType], Iterator[pa.RecordBatch]]

_EXTENSIONS = {
    ".jsonl": InputFormat.JSONL,
    ".json": InputFormat.JSONL,
    ".ndjson": InputFormat.JSONL,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
    ".arrow": InputFormat.ARROW,
    ".feather": InputFormat.ARROW,
    ".arrows": InputFormat.ARROW,
}


def read_input(path: str, kind: InputFormat | None, row_type: RowType) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the file; `-` is standard input, JSON lines unless `kind` says otherwise.

    The format follows from the extension when `kind` is None. Raises NotFoundError, InvalidInputError naming
    the file and, for text formats, line or row and column.
    """
    yield from _batches(path, kind or _format_of(path), row_type, _READERS)


def read_columns(path: str, kind: InputFormat | None, row_type: RowType) -> Iterator[pa.RecordBatch]:
    """Yield batches as `read_input` does, but only with the columns that the file has: for JSON lines the
    first line names them, and all lines need them.
    """
    readers = {**_READERS, InputFormat.JSONL: _json_columns}
    yield from _batches(path, kind or _format_of(path), row_type, readers)


def typed_values(texts: Mapping[str, str], row_type: RowType) -> dict[str, pa.Scalar]:
    """Return values of columns from their texts, as a CSV file has them: an empty one is null.

    Raises InvalidInputError for an unknown column and for text that is no value of it.
    """
    fields = {field.name: field for field in row_type.fields}
    values = {}
    for name, text in texts.items():
        if name not in fields:
            raise InvalidInputError(f"no column {name!r}; columns are {', '.join(row_type.names)}")
        values[name] = parse_texts(pa.array([text or None], pa.string()), fields[name], 1)[0]
    return values


def _batches(
    path: str, kind: InputFormat, row_type: RowType, readers: Mapping[InputFormat, _Reader]
) -> Iterator[pa.RecordBatch]:
    try:
        with _open(path) as stream:
            yield from readers[kind](stream, row_type)
    except InvalidInputError as err:
        raise InvalidInputError(f"{_display_name(path)}: {err}") from err
    except FileNotFoundError as err:
        raise NotFoundError(f"input file {path} does not exist; check the path") from err
    except (OSError, pa.ArrowException, UnicodeDecodeError) as err:
        raise InvalidInputError(f"{_display_name(path)}: it cannot be read as {kind.value}: {err}") from err


def _display_name(path: str) -> str:
    return "standard input" if path == "-" else path


def _format_of(path: str) -> InputFormat:
    if path == "-":
        return InputFormat.JSONL
    kind = _EXTENSIONS.get(Path(path).suffix.lower())
    if kind is None:
        choices = ", ".join(member.value for member in InputFormat)
        raise InvalidInputError(f"{path}: its extension is not known; give --format with one of {choices}")
    return kind


def _open(path: str) -> IO[bytes]:
    return _stdin() if path == "-" else open(path, "rb")


def _stdin() -> IO[bytes]:
    return open(0, "rb", closefd=False)


def _json_lines(stream: IO[bytes], row_type: RowType) -> Iterator[pa.RecordBatch]:
    first = 1
    while lines := list(islice(stream, _LINES)):
        yield json_to_batch(lines, row_type, first)
        first += len(lines)


def _json_columns(stream: IO[bytes], row_type: RowType) -> Iterator[pa.RecordBatch]:
    first, names = 1, None
    while lines := list(islice(stream, _LINES)):
        if names is None:
            names = json_columns(lines, row_type)
        if names is not None:
            yield json_to_batch(lines, row_type.select(tuple(names)), first, complete=True)
        first += len(lines)


def _csv(stream: IO[bytes], row_type: RowType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file. A header names the columns. An empty field is null, unless it is in
    quotes.
    """
    fields = {field.name: field for field in row_type.fields}
    fields[KIND_COLUMN] = DataField(-1, KIND_COLUMN, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH))
    read = pa_csv.ReadOptions(block_size=_CSV_BLOCK)
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    options = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(fields, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    row = 1
    for batch in pa_csv.open_csv(stream, read, parse, options):
        columns: list[Any] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in fields:
                raise InvalidInputError(f"no column {name!r}; columns are {', '.join(row_type.names)}")
            columns.append(parse_texts(column, fields[name], row))
        row += batch.num_rows
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _parquet(stream: IO[bytes], row_type: RowType) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(
        pa.PythonFile(stream, "r") if stream.seekable() else pa.BufferReader(stream.read())
    ).iter_batches()


def _arrow(stream: IO[bytes], row_type: RowType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in the file or the stream format of Arrow."""
    if not stream.seekable():
        yield from pa.ipc.open_stream(stream)
        return
    magic = stream.read(6)
    stream.seek(0)
    if magic != b"ARROW1":
        yield from pa.ipc.open_stream(stream)
        return
    file = pa.ipc.open_file(stream)
    for i in range(file.num_record_batches):
        yield file.get_batch(i)


_READERS: Mapping[InputFormat, _Reader] = {
    InputFormat.JSONL: _json_lines,
    InputFormat.CSV: _csv,
    InputFormat.PARQUET: _parquet,
    InputFormat.ARROW: _arrow,
}
