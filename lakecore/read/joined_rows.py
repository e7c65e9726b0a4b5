"""Rows whose columns lie in several files (data evolution), joined by row id.

Rule of the format: of the files with the same rows, the newest (highest sequence number) that has a column
gives it; a column that none has is null. Their rows come in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa
from pyroaring import BitMap

from lakecore.errors import CorruptDataError
from lakecore.metadata.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file_reader import read_file, read_type
from lakecore.read.row_ids import TRACKING_NAMES
from lakecore.types.arrow import arrow_schema, arrow_type
from lakecore.types.datatypes import RowType

__all__ = ["read_joined"]


def read_joined(
    ctx: ReadContext,
    bucket_dir: str,
    files: Sequence[DataFile],
    columns: Sequence[str],
    deletions: Mapping[str, BitMap],
) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their ids. `files`: of whole row ranges. `deletions`: by file name; a row that is
    deleted in one file of a range is deleted. Holds a batch of each file of a range.

    Raises NotFoundError, CorruptDataError, also where files of a range differ in their rows.
    """
    wanted = read_type(ctx).select(tuple(columns))
    for _, group in groupby(sorted(files, key=_first), key=_first):
        members = sorted(group, key=lambda file: -file.max_sequence_number)
        gone = BitMap.union(BitMap(), *(deletions.get(file.file_name, BitMap()) for file in members))
        yield from _range(ctx, bucket_dir, members, wanted, gone)


def _first(file: DataFile) -> int:
    return -1 if file.first_row_id is None else file.first_row_id


def _range(
    ctx: ReadContext, bucket_dir: str, files: Sequence[DataFile], wanted: RowType, gone: BitMap
) -> Iterator[pa.RecordBatch]:
    shares = _shares(ctx, files, wanted, f"{bucket_dir}/{files[0].file_name}")
    used = [file for file in files if shares[file.file_name]] or [files[0]]
    streams = [
        read_file(ctx, bucket_dir, file, shares[file.file_name] or [wanted.names[0]], deletions=gone)
        for file in used
    ]
    schema = arrow_schema(wanted)
    for parts in _zipped(streams, f"{bucket_dir}/{used[-1].file_name}"):
        columns = {name: part.column(name) for part in parts for name in part.schema.names}
        rows = parts[0].num_rows
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(rows, arrow_type(field.type))
            for field in wanted.fields
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _shares(ctx: ReadContext, files: Sequence[DataFile], wanted: RowType, path: str) -> dict[str, list[str]]:
    """The wanted columns that each file gives; `files` newest first."""
    shares: dict[str, list[str]] = {file.file_name: [] for file in files}
    held = {file.file_name: _field_ids(ctx, file) for file in files}
    for field in wanted.fields:
        if field.name in TRACKING_NAMES:
            shares[files[0].file_name].append(field.name)
            continue
        giver = next((file for file in files if field.id in held[file.file_name]), None)
        if giver is not None:
            shares[giver.file_name].append(field.name)
        elif not field.type.nullable:
            raise CorruptDataError(path, f"no file of these rows has column {field.name}, which is NOT NULL")
    return shares


def _field_ids(ctx: ReadContext, file: DataFile) -> frozenset[int]:
    names = file.write_cols
    fields = ctx.file_schema(file.schema_id).fields
    return frozenset(field.id for field in fields if names is None or field.name in names)


def _zipped(streams: Sequence[Iterator[pa.RecordBatch]], path: str) -> Iterator[list[pa.RecordBatch]]:
    """Batches side by side, cut to equal lengths."""
    heads = [next(stream, None) for stream in streams]
    while True:
        known = [head for head in heads if head is not None]
        if not known:
            return
        if len(known) < len(heads):
            raise CorruptDataError(path, "files with columns of the same rows differ in the number of rows")
        count = min(head.num_rows for head in known)
        if count:
            yield [head.slice(0, count) for head in known]
        heads = [
            head.slice(count) if head.num_rows > count else next(stream, None)
            for head, stream in zip(known, streams, strict=True)
        ]
