"""This module converts batches to JSON lines and back, by the conventions of `json_text` and
`json_values`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError
from lakecore.row.json_columns import fast_column
from lakecore.row.json_text import column_json, quoted
from lakecore.row.json_values import from_json
from lakecore.row.values import values_array
from lakecore.types.arrow import arrow_field
from lakecore.types.datatypes import DataField, RowType

__all__ = ["BUCKET_COLUMN", "KIND_COLUMN", "batch_to_json", "json_columns", "json_to_batch"]

KIND_COLUMN = "_kind"
BUCKET_COLUMN = "_bucket"

_SYMBOLS = ("+I", "-U", "+U", "-D")
_CHUNK = 1 << 16


def batch_to_json(batch: pa.RecordBatch, row_type: RowType, kind: str | None = None) -> Iterator[str]:
    """Yield one JSON object per row, without line ends; columns are found by name and written in the order of
    `row_type`.

    `kind` (`+I`) goes first as `_kind` when given. Cost: 1 to 10 s a million rows of ten columns.
    """
    for start in range(0, batch.num_rows, _CHUNK):
        part = batch.slice(start, _CHUNK)
        pieces: list[Any] = ["{" if kind is None else f'{{"{KIND_COLUMN}":"{kind}"']
        for i, field in enumerate(row_type.fields):
            comma = "," if i or kind is not None else ""
            pieces += [f"{comma}{quoted(field.name)}:", column_json(part.column(field.name), field.type)]
        if not row_type.fields:
            yield from [pieces[0] + "}"] * part.num_rows
            continue
        yield from pc.binary_join_element_wise(*pieces, "}", "").to_pylist()


def json_columns(lines: Iterable[str | bytes], row_type: RowType, first_line: int = 1) -> list[str] | None:
    """Return the columns of the first row, in their order, or None where all lines are blank.

    Raises InvalidInputError naming line and column for one that `row_type` has not.
    """
    for number, line in enumerate(lines, first_line):
        if line.strip():
            row = _parse_line(line, number)
            _check_known(row, number, set(row_type.names), row_type)
            return list(row)
    return None


def json_to_batch(
    lines: Iterable[str | bytes], row_type: RowType, first_line: int = 1, *, complete: bool = False
) -> pa.RecordBatch:
    """Return the rows of JSON objects as a batch; blank lines are skipped. Missing columns are null (also
    those with a default), or refused when rows have to be `complete`.

    The batch has the columns of `row_type`, and `_kind` (+I, -U, +U, -D) when any line has it. Raises
    InvalidInputError naming line (counted from `first_line`), column and value.
    """
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, first_line):
        if line.strip():
            rows.append(_parse_line(line, number))
            numbers.append(number)
    names = {field.name for field in row_type.fields} | {KIND_COLUMN}
    for number, row in zip(numbers, rows, strict=True):
        _check_known(row, number, names, row_type)
        if complete and (missing := [name for name in row_type.names if name not in row]):
            raise InvalidInputError(
                f"line {number}: column {missing[0]} is missing, although the first row has it; write null "
                "to empty it, or put rows with other columns into a file of their own"
            )
    arrays = [_column(rows, numbers, field) for field in row_type.fields]
    fields = [arrow_field(field).with_nullable(True) for field in row_type.fields]
    if any(KIND_COLUMN in row for row in rows):
        arrays.append(_kinds(rows, numbers))
        fields.append(pa.field(KIND_COLUMN, pa.string(), nullable=False))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check_known(row: Mapping[str, Any], number: int, names: Set[str], row_type: RowType) -> None:
    if not row.keys() <= names:
        unknown = sorted(row.keys() - names)[0]
        raise InvalidInputError(
            f"line {number}: no column {unknown!r}; columns are {', '.join(row_type.names)}"
        )


def _parse_line(line: str | bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise InvalidInputError(f"line {number}: not JSON: {err}") from err
    if not isinstance(row, dict):
        raise InvalidInputError(f"line {number}: write one JSON object a line, not {str(row)[:40]}")
    return row


def _column(rows: Sequence[dict[str, Any]], numbers: Sequence[int], field: DataField) -> pa.Array:
    name = field.name
    raws = [row.get(name) for row in rows]
    quick = fast_column(raws, field.type)
    required = not field.type.nullable and field.default_value is None
    if quick is not None and not (required and quick.null_count):
        return quick
    convert = from_json(field.type)
    out: list[Any] = []
    for number, raw in zip(numbers, raws, strict=True):
        if raw is None:
            if required:
                raise InvalidInputError(f"line {number}: column {name} is NOT NULL and has no value")
            out.append(None)
            continue
        try:
            out.append(convert(raw))
        except (InvalidInputError, ValueError, TypeError, ArithmeticError, KeyError) as err:
            raise InvalidInputError(f"line {number}, column {name}: {err}") from err
    return values_array(out, field.type)


def _kinds(rows: Sequence[dict[str, Any]], numbers: Sequence[int]) -> pa.Array:
    kinds = [row.get(KIND_COLUMN) or "+I" for row in rows]
    for number, kind in zip(numbers, kinds, strict=True):
        if kind not in _SYMBOLS:
            raise InvalidInputError(f"line {number}: {KIND_COLUMN} {kind!r}; use {', '.join(_SYMBOLS)}")
    return pa.array(kinds, pa.string())
