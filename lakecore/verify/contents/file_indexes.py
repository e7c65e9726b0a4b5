"""This module compares the file indexes of a data file with its rows: every index must find its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import open_reader
from lakecore.fs.file_io import FileIO
from lakecore.index.container import INDEX_SUFFIX, decode_head
from lakecore.index.search import FileIndex, embedded_index, matching_rows
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.predicate.tree import In, IsNull
from lakecore.row.values import array_values
from lakecore.types.datatypes import AtomicType, DataField

__all__ = ["index_problems", "sample_problems"]

_SAMPLED = 16
_MOST_VALUES = 128
ColumnRows = tuple[npt.NDArray[np.int64], pa.Array]
"""These are positions in a file, and the values of a column at them."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """One row, which has a position and its value of one column."""

    field: DataField
    position: int
    value: Any


def index_problems(
    file_io: FileIO, path: str, file: DataFile, schema: TableSchema
) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for every column whose indexes do not find a row that they should find.

    `schema`: that of the file. It looks for the values of 16 rows all over the file, so it reads the indexed
    columns and the index file whole. Raises CorruptDataError for bytes that are no index; nothing for a lost
    index file, which others find.
    """
    try:
        where, index = _open(file_io, path, file)
    except NotFoundError:
        return
    if index is None:
        return
    fields = {
        field.name: field
        for field in schema.fields
        if field.name in index.head and isinstance(field.type, AtomicType)
    }
    missed: dict[str, str] = {}
    for sample in _samples(file_io, path, schema, file.row_count, fields):
        name = sample.field.name
        condition = IsNull(name) if sample.value is None else In(name, (sample.value,))
        rows = matching_rows(condition, {name: sample.field}, index)
        if rows is not None and sample.position not in rows:
            missed[name] = (
                f"the file indexes of column {name} do not contain the value of row {sample.position}"
            )
    for problem in missed.values():
        yield where, problem


def sample_problems(
    file_io: FileIO, path: str, file: DataFile, schema: TableSchema, rows: Mapping[str, ColumnRows]
) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for every column whose indexes do not find one of the given rows, which are
    positions and values.

    It looks for at most 256 distinct values of a column. It reads the index file whole. Raises
    CorruptDataError, and NotFoundError where there is no index file.
    """
    where, index = _open(file_io, path, file)
    if index is None:
        return
    fields = {field.name: field for field in schema.fields if isinstance(field.type, AtomicType)}
    for name in sorted(fields.keys() & rows.keys() & index.head.keys()):
        field = fields[name]
        for value, positions in _places(rows[name], field).items():
            condition = IsNull(name) if value is None else In(name, (value,))
            matches = matching_rows(condition, {name: field}, index)
            if matches is not None and positions - matches:
                row = (positions - matches).min()
                yield where, f"the file indexes of column {name} do not contain the value of row {row}"
                break


def _places(rows: ColumnRows, field: DataField) -> dict[Any, BitMap]:
    """Return the positions of each of some distinct values."""
    positions, values = rows
    codes = values.dictionary_encode(null_encoding="encode")
    distinct = array_values(codes.dictionary, field.type)
    step = max(1, len(distinct) // _MOST_VALUES)
    numbers = codes.indices.to_numpy(zero_copy_only=False)
    return {
        distinct[code]: BitMap(positions[numbers == code].astype(np.uint32))
        for code in range(0, len(distinct), step)
    }


def _open(file_io: FileIO, path: str, file: DataFile) -> tuple[str, FileIndex | None]:
    embedded = embedded_index(file)
    if embedded is not None:
        return path, embedded
    name = next((name for name in file.extra_files if name.endswith(INDEX_SUFFIX)), None)
    if name is None:
        return path, None
    where = f"{path.rpartition('/')[0]}/{name}"
    data = file_io.read(where)
    head = decode_head(data, len(data), where)
    read = FileIndex(head, lambda blob: data[blob.start : blob.start + blob.length], file.row_count, where)
    return where, read


def _samples(
    file_io: FileIO, path: str, schema: TableSchema, rows: int, fields: Mapping[str, DataField]
) -> Iterator[_Sample]:
    """Yield values of rows that are evenly spread over the file."""
    places = np.unique(np.linspace(0, max(rows - 1, 0), _SAMPLED).astype(np.int64))
    reader = open_reader(file_io, path, schema=schema)
    try:
        present = [name for name in fields if name in reader.schema.names]
        start = 0
        for batch in reader.batches(present):
            inside = places[(places >= start) & (places < start + batch.num_rows)]
            for name in present:
                column = canonical(batch.column(name), fields[name].type, path).take(inside - start)
                values = array_values(column, fields[name].type)
                for position, value in zip(inside.tolist(), values, strict=True):
                    yield _Sample(fields[name], position, value)
            start += batch.num_rows
    finally:
        reader.close()
