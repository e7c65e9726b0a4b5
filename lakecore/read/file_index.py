"""Asking the file indexes of a data file before it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyroaring import BitMap

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.index.container import INDEX_SUFFIX, Blob, decode_head, head_length
from lakecore.index.definition import READ_ENABLED
from lakecore.index.search import FileIndex, embedded_index, matching_rows, stored_columns
from lakecore.metadata.data_file import DataFile
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.context import ReadContext

__all__ = ["index_path", "indexed_rows", "open_index"]

_MAX_ROWS = 1 << 31
_USUAL_HEAD = 4 << 10


def indexed_rows(
    ctx: ReadContext, bucket_dir: str, file: DataFile, predicate: Predicate | None
) -> BitMap | None:
    """Positions of the rows that may match, None for all: none, and the file need not be opened.

    Costs a look into the index file, if there is one: its head, and the indexes of the predicate's columns.
    Raises NotFoundError when the index file is gone, CorruptDataError.
    """
    if predicate is None or file.row_count >= _MAX_ROWS:
        return None
    if file.embedded_index is None and index_path(ctx, bucket_dir, file) is None:
        return None
    if not READ_ENABLED.read(ctx.schema.options):
        return None
    columns = stored_columns(columns_of(predicate), ctx.schema, ctx.file_schema(file.schema_id))
    if not columns:
        return None
    with open_index(ctx, bucket_dir, file) as index:
        found = matching_rows(predicate, columns, index)
    return None if found is not None and len(found) == file.row_count else found


def index_path(ctx: ReadContext, bucket_dir: str, file: DataFile) -> str | None:
    """The file with the indexes of `file`, beside it; None without one."""
    paths = ctx.paths.extra_files(bucket_dir, file)
    return next((path for path in paths if path.endswith(INDEX_SUFFIX)), None)


@contextmanager
def open_index(ctx: ReadContext, bucket_dir: str, file: DataFile) -> Iterator[FileIndex]:
    """The indexes of a data file, empty without any; their bytes can be read inside the context.

    Raises NotFoundError when the index file is gone, CorruptDataError.
    """
    embedded = embedded_index(file)
    path = index_path(ctx, bucket_dir, file)
    if embedded is not None:
        yield embedded
    elif path is None:
        yield FileIndex({}, lambda _: b"", file.row_count, file.file_name)
    else:
        with _open(ctx, path) as source:
            yield _index_of(source, path, file.row_count)


def _open(ctx: ReadContext, path: str) -> Any:
    try:
        return ctx.file_io.open_input(path)
    except NotFoundError as err:
        raise NotFoundError(
            f"index file {path} does not exist: the snapshot that is read may have been expired; read a "
            "newer one, or set file-index.read.enabled=false, and run fsck"
        ) from err


def _index_of(source: Any, path: str, rows: int) -> FileIndex:
    size = source.size()
    start: bytes = source.read(_USUAL_HEAD)
    length = head_length(start, size, path)
    head = start[:length] if length <= len(start) else start + source.read(length - len(start))

    def read(blob: Blob) -> bytes:
        source.seek(blob.start)
        data: bytes = source.read(blob.length)
        if len(data) != blob.length:
            raise CorruptDataError(path, f"{len(data)} of {blob.length} bytes at byte {blob.start}")
        return data

    return FileIndex(decode_head(head, size, path), read, rows, path)
