"""This module makes batches of the lines of a text file: CSV, JSON or plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.read.columns.time_texts import UnknownTextError
from lakecore.read.directory.csv_fields import csv_fields
from lakecore.read.directory.json_values import JsonRows
from lakecore.read.directory.lines import read_lines
from lakecore.read.directory.rules import FileKind, FormatRules, MalformedMode
from lakecore.read.directory.text_values import text_decoder
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, DataField, RowType

__all__ = ["TextFile", "rows_without_columns"]

_ROWS = 8192
_EXCERPT = 80


@dataclass(frozen=True, slots=True)
class TextFile:
    """This is one text file of a table. `stored` are all columns of its lines, in order.

    Lines are parsed one by one in Python: some hundred thousand fields a second.
    """

    file_io: FileIO
    path: str
    rules: FormatRules
    stored: RowType

    def batches(self, columns: RowType) -> Iterator[pa.RecordBatch]:
        """Yield the rows with these columns. Raises CorruptDataError naming the line that is malformed,
        unless the options say what becomes of it; UnsupportedError for a spelling of a value that Java reads
        otherwise, as a time with a zone; and the errors of `read_lines`.

        Spec: with csv.mode=permissive a malformed field and those of `columns` that follow it are null.
        """
        schema = arrow_schema(columns)
        rows: list[Sequence[Any]] = []
        try:
            for values in self._rows(columns):
                rows.append(values)
                if len(rows) == _ROWS:
                    yield _batch(rows, columns, schema)
                    rows = []
        except UnknownTextError as err:
            raise UnsupportedError(
                f"{self.path}: this release does not know how Java reads {err}; read it with another engine"
            ) from err
        if rows:
            yield _batch(rows, columns, schema)

    def _rows(self, columns: RowType) -> Iterator[Sequence[Any]]:
        match self.rules.kind:
            case FileKind.CSV:
                return self._csv_rows(columns)
            case FileKind.JSON:
                return self._json_rows(columns)
            case _:
                return ((line,) if columns.fields else () for _, line in self._lines())

    def _lines(self) -> Iterator[tuple[int, str]]:
        number = 0
        for lines in read_lines(self.file_io, self.path, self.rules.line_delimiter):
            for line in lines:
                number += 1
                yield number, line

    def _csv_rows(self, columns: RowType) -> Iterator[Sequence[Any]]:
        places = [self.stored.names.index(name) for name in columns.names]
        count = max(places, default=-1) + 1
        row = _CsvRow(columns.fields, self.rules)
        for number, line in self._lines():
            if number == 1 and self.rules.csv.header:
                continue
            texts = csv_fields(line, self.rules.csv, count)
            try:
                values = row.values([texts[at] for at in places])
            except _MalformedFieldError as err:
                raise self._line_error(number, line, f"{err} (csv.mode=failfast)") from err
            if values is not None:
                yield values

    def _json_rows(self, columns: RowType) -> Iterator[Sequence[Any]]:
        rows = JsonRows(columns.fields, ignores_errors=self.rules.ignores_errors)
        for number, line in self._lines():
            try:
                values = rows.values(line)
            except (ValueError, ArithmeticError, InvalidInputError, RecursionError) as err:
                hint = "json.ignore-parse-errors=true leaves such lines and values out"
                raise self._line_error(number, line, f"{err}; {hint}") from err
            if values is not None:
                yield values

    def _line_error(self, number: int, line: str, problem: str) -> CorruptDataError:
        excerpt = (
            line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]} and {len(line) - _EXCERPT} more characters"
        )
        return CorruptDataError(self.path, f"line {number}, {excerpt!r}: {problem}")


class _MalformedFieldError(Exception):
    """A field is no value of its column."""


class _CsvRow:
    """It makes values of the texts of a row."""

    __slots__ = ("_mode", "_null", "_parsers")

    def __init__(self, fields: Sequence[DataField], rules: FormatRules) -> None:
        self._mode, self._null = rules.csv.mode, rules.csv.null_literal
        atomic = [(field.name, field.type) for field in fields if isinstance(field.type, AtomicType)]
        self._parsers = [(name, text_decoder(data_type)) for name, data_type in atomic]

    def values(self, texts: Sequence[str | None]) -> list[Any] | None:
        """Return the values, None for a row that is left out. Raises _MalformedFieldError."""
        values: list[Any] = []
        for text, (name, parse) in zip(texts, self._parsers, strict=True):
            if text is None or text == self._null:
                values.append(None)
                continue
            try:
                values.append(parse(text))
            except (ValueError, ArithmeticError, InvalidInputError) as err:
                if self._mode is MalformedMode.FAILFAST:
                    raise _MalformedFieldError(f"column {name}: {text!r}: {err}") from err
                if self._mode is MalformedMode.DROPMALFORMED:
                    return None
                return values + [None] * (len(texts) - len(values))
        return values


def _batch(rows: Sequence[Sequence[Any]], columns: RowType, schema: pa.Schema) -> pa.RecordBatch:
    if not columns.fields:
        return rows_without_columns(len(rows))
    return rows_batch(rows, columns, schema)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
