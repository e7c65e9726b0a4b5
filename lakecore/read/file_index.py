"""Asking the file indexes of a data file before it is opened."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.index.container import FIXED_HEAD, INDEX_SUFFIX, Blob, decode_head, head_length
from lakecore.index.definition import READ_ENABLED
from lakecore.index.search import FileIndex, embedded_index, matching_rows, stored_columns
from lakecore.metadata.data_file import DataFile
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.context import ReadContext

__all__ = ["index_path", "indexed_rows"]

_MAX_ROWS = 1 << 31


def indexed_rows(
    ctx: ReadContext, bucket_dir: str, file: DataFile, predicate: Predicate | None
) -> BitMap | None:
    """Positions of the rows that may match, None for all: none, and the file need not be opened.

    Costs a look into the index file, if there is one: its head, and the indexes of the predicate's columns.
    Raises NotFoundError when the index file is gone, CorruptDataError.
    """
    name = index_path(ctx, bucket_dir, file)
    if predicate is None or file.row_count >= _MAX_ROWS or (name is None and file.embedded_index is None):
        return None
    if not READ_ENABLED.read(ctx.schema.options):
        return None
    columns = stored_columns(columns_of(predicate), ctx.schema, ctx.file_schema(file.schema_id))
    if not columns:
        return None
    embedded = embedded_index(file)
    if embedded is not None:
        found = matching_rows(predicate, columns, embedded)
    else:
        assert name is not None
        found = _from_file(ctx, name, file, predicate, columns)
    return None if found is not None and len(found) == file.row_count else found


def index_path(ctx: ReadContext, bucket_dir: str, file: DataFile) -> str | None:
    """The file with the indexes of `file`, beside it; None without one."""
    paths = ctx.paths.extra_files(bucket_dir, file)
    return next((path for path in paths if path.endswith(INDEX_SUFFIX)), None)


def _from_file(
    ctx: ReadContext, path: str, file: DataFile, predicate: Predicate, columns: Any
) -> BitMap | None:
    try:
        source = ctx.file_io.open_input(path)
    except NotFoundError as err:
        raise NotFoundError(
            f"index file {path} does not exist: the snapshot that is read may have been expired; read a "
            "newer one, or set file-index.read.enabled=false, and run fsck"
        ) from err
    with source:
        size = source.size()
        head = source.read(FIXED_HEAD)
        head += source.read(head_length(head, size, path) - FIXED_HEAD)

        def read(blob: Blob) -> bytes:
            source.seek(blob.start)
            data: bytes = source.read(blob.length)
            if len(data) != blob.length:
                raise CorruptDataError(path, f"{len(data)} of {blob.length} bytes at byte {blob.start}")
            return data

        index = FileIndex(decode_head(head, size, path), read, file.row_count, path)
        return matching_rows(predicate, columns, index)
