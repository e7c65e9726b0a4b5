"""This module proves a compaction of rows whose columns are in several files: it compares covered columns,
value by value, in order.

Each column is tallied on its own, with the position of its values: no file has to be joined with another for
that. Rule of the format: a column is read from the newest of the files with the same rows that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakecore.errors import ProofError
from lakecore.metadata.dedicated_columns import DedicatedColumns
from lakecore.types.datatypes import DataField
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally, tally

__all__ = ["check_columns", "tally_columns"]

_POSITION_ID = -1


def tally_columns(context: ProofContext, unit: str, ranges: Sequence[Sequence[StoredFile]]) -> Tally:
    """Return the rows of `ranges` (files of the same rows each, in order), and the digest of their covered
    columns.

    Raises ProofError where a file has other rows than it says, CorruptDataError. It reads each column once.
    """
    whole = ZERO
    for files in ranges:
        count = files[0].file.row_count
        newest = sorted(files, key=lambda stored: -stored.file.max_sequence_number)
        digest = 0
        for field in context.shape.values:
            digest += _column(context, unit, newest, field, whole.rows, count)
        whole += Tally(count, digest)
    return whole


def check_columns(
    context: ProofContext, unit: str, inputs: Sequence[StoredFile], outputs: Sequence[StoredFile]
) -> None:
    """Check that a column with dedicated files is in the outputs only if it is in the inputs. Pure.

    Readers take a column from the newest file that has it: nulls in the new file would hide the blobs or
    vectors. Raises ProofError.
    """
    for output in outputs:
        schema = context.schemas[output.file.schema_id]
        dedicated = DedicatedColumns.of(schema.row_type, schema.options, 0)
        for name in (*dedicated.blobs, *dedicated.vectors):
            field = schema.row_type.field(name)
            if _has(context, output, field) and not any(_has(context, stored, field) for stored in inputs):
                raise ProofError(
                    unit, f"{output.path} has column {name}, which no input has: it has files of its own"
                )


def _column(
    context: ProofContext, unit: str, files: Sequence[StoredFile], field: DataField, first: int, count: int
) -> int:
    giver = next((stored for stored in files if _has(context, stored, field)), None)
    columns = iter([pa.nulls(count)]) if giver is None else _read(context, giver, field)
    digest = rows = 0
    for column in columns:
        places = pa.array(np.arange(first + rows, first + rows + len(column)))
        digest += tally([column, places], (field.id, _POSITION_ID)).digest
        rows += len(column)
    if rows != count:
        path = files[0].path if giver is None else giver.path
        raise ProofError(unit, f"{path} has {rows} rows instead of {count}")
    return digest


def _has(context: ProofContext, stored: StoredFile, field: DataField) -> bool:
    columns = stored.file.write_cols
    fields = context.schemas[stored.file.schema_id].fields
    return any(other.id == field.id and (columns is None or other.name in columns) for other in fields)


def _read(context: ProofContext, stored: StoredFile, field: DataField) -> Iterator[pa.Array]:
    shape = replace(context.shape, values=(field,))
    schema = context.schemas[stored.file.schema_id]
    for (column,) in read_covered(context.file_io, stored.path, shape, schema):
        yield column
