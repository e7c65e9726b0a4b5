"""This module evaluates the file indexes of a data file before it is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.fs.file_io import RangeSource
from lakecore.fs.stores.registry import is_remote
from lakecore.index.container import INDEX_SUFFIX, Blob, decode_head, head_length
from lakecore.index.definition import READ_ENABLED
from lakecore.index.search import FileIndex, embedded_index, matching_rows, stored_columns
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.context import ReadContext
from lakecore.types.datatypes import DataField

__all__ = ["IndexMatch", "IndexSearch", "index_path", "open_index"]

_MAX_ROWS = 1 << 31
_USUAL_HEAD = 4 << 10
_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class IndexMatch:
    """This is the result of the file indexes of one file: the positions of rows that may match, None for
    all.
    """

    rows: BitMap | None


_ALL = IndexMatch(None)


class IndexSearch:
    """It evaluates the indexes of many files of a table for one predicate."""

    def __init__(self, ctx: ReadContext, predicate: Predicate | None) -> None:
        self._ctx = ctx
        self._predicate = predicate
        self._columns: dict[int, dict[str, DataField]] = {}
        self._enabled = predicate is not None and READ_ENABLED.read(ctx.schema.options)

    def search_files(self, bucket_dir: str, files: Sequence[DataFile]) -> Mapping[str, IndexMatch]:
        """Return the result of `search` for each file by name. On remote storage several files are read at
        once.
        """
        if len(files) > 1 and self._enabled and is_remote(bucket_dir):
            with ThreadPoolExecutor(_REQUESTS) as pool:
                match = list(pool.map(lambda file: self.search(bucket_dir, file), files))
        else:
            match = [self.search(bucket_dir, file) for file in files]
        return {file.file_name: one for file, one in zip(files, match, strict=True)}

    def search(self, bucket_dir: str, file: DataFile) -> IndexMatch:
        """Return the rows that may match; where there are none the file need not be opened.

        It costs a look into the index file, if there is one: its head, and the indexes of the predicate's
        columns. Raises NotFoundError when the index file does not exist, CorruptDataError.
        """
        if not self._enabled or self._predicate is None or file.row_count >= _MAX_ROWS:
            return _ALL
        path = None
        if file.embedded_index is None and (path := index_path(self._ctx, bucket_dir, file)) is None:
            return _ALL
        columns = self._columns.get(file.schema_id)
        if columns is None:
            stored = self._ctx.file_schema(file.schema_id)
            columns = stored_columns(columns_of(self._predicate), self._ctx.schema, stored)
            self._columns[file.schema_id] = columns
        if not columns:
            return _ALL
        embedded = embedded_index(file)
        if embedded is not None:
            rows = matching_rows(self._predicate, columns, embedded)
        else:
            assert path is not None
            with _open(self._ctx, path) as source:
                rows = matching_rows(self._predicate, columns, _index_of(source, path, file.row_count))
        return _ALL if rows is None or len(rows) == file.row_count else IndexMatch(rows)


def index_path(ctx: ReadContext, bucket_dir: str, file: DataFile) -> str | None:
    """Return the path of the index file of `file`; None without one."""
    if not any(name.endswith(INDEX_SUFFIX) for name in file.extra_files):
        return None
    paths = ctx.paths.extra_files(bucket_dir, file)
    return next(path for path in paths if path.endswith(INDEX_SUFFIX))


@contextmanager
def open_index(ctx: ReadContext, bucket_dir: str, file: DataFile) -> Iterator[FileIndex]:
    """Open the indexes of a data file, empty without any; their bytes can be read inside the context.

    Raises NotFoundError when the index file does not exist, CorruptDataError.
    """
    path = index_path(ctx, bucket_dir, file)
    if file.embedded_index is None and path is None:
        yield FileIndex({}, lambda _: b"", file.row_count, file.file_name)
        return
    embedded = embedded_index(file)
    if embedded is not None:
        yield embedded
        return
    assert path is not None
    with _open(ctx, path) as source:
        yield _index_of(source, path, file.row_count)


def _open(ctx: ReadContext, path: str) -> RangeSource:
    try:
        return ctx.file_io.open_ranges(path)
    except NotFoundError as err:
        raise NotFoundError(
            f"index file {path} does not exist: the snapshot that is read may have expired; read a "
            "newer one, or set file-index.read.enabled=false, and run fsck"
        ) from err


def _index_of(source: RangeSource, path: str, rows: int) -> FileIndex:
    size = source.size()
    start = source.read_at(_USUAL_HEAD, 0)
    length = head_length(start, size, path)
    head = start if length <= len(start) else start + source.read_at(length - len(start), len(start))

    def read(blob: Blob) -> bytes:
        data = source.read_at(blob.length, blob.start)
        if len(data) != blob.length:
            raise CorruptDataError(
                path, f"it has only {len(data)} of {blob.length} bytes at byte {blob.start}"
            )
        return data

    return FileIndex(decode_head(head, size, path), read, rows, path)
