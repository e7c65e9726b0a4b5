"""This module locates values of a BLOB column, as bytes or as references, by the position of a row in its row
range.

Rules of the format: of the blob files of a column the newest (highest sequence number) that covers a row
holds its value, unless it says that the row keeps an older one; a row that no file covers is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.format.blob.descriptors import decode_reference, encode_reference, is_reference
from lakecore.format.blob.file import OLDER, BlobSource, load_blob_index
from lakecore.format.blob.lists import decode_blobs
from lakecore.fs.confined import reference_file_io
from lakecore.fs.file_io import FileIO
from lakecore.metadata.dedicated_columns import is_blob
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import DataField, DataType, MapType

__all__ = [
    "BlobColumn",
    "OpenSources",
    "cut_by_size",
    "locate_blobs",
    "reference_sizes",
    "resolve_references",
]

_MOST = (1 << 31) - 1
_BATCH_BYTES = 64 << 20
_MOST_OPEN = 16
_PIECE = 1 << 20

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BlobColumn:
    """It has the location of each value of a BLOB column, for the rows of a range."""

    file_io: FileIO
    name: str
    data_type: DataType
    """This is the type, which is BLOB, or a list or map of it."""
    paths: tuple[str, ...]
    owner: npt.NDArray[np.int32]
    """This is the index in `paths` of the file that has the value, by row; -1 for null."""
    starts: Ints
    """This is the first byte of the value, by row."""
    sizes: Ints
    """This is the number of bytes, by row."""

    def references(self, rows: Ints) -> pa.Array:
        """Return the references of these rows. Only lists and maps have to be read for it."""
        if not is_blob(self.data_type):
            return self._nested_column(rows, referring=True)
        references = [
            None if owner < 0 else encode_reference(self.paths[owner], start, size)
            for owner, start, size in zip(*self._places(rows), strict=True)
        ]
        return pa.array(references, pa.binary())

    def values(self, rows: Ints) -> pa.Array:
        """Read the bytes of these rows, each on its own. Raises NotFoundError, CorruptDataError,
        UnsupportedError for a value that no Arrow array can hold.
        """
        return _binary(self._payloads(rows)) if is_blob(self.data_type) else self._nested_column(rows)

    def _nested_column(self, rows: Ints, *, referring: bool = False) -> pa.Array:
        values: list[Any] = []
        for record, owner, start in zip(self._payloads(rows), *self._places(rows)[:2], strict=True):
            if record is None:
                values.append(None)
                continue
            path = self.paths[owner]
            parts = decode_blobs(record, self.data_type, path)
            blobs = [
                None
                if place is None
                else encode_reference(path, start + place[0], place[1])
                if referring
                else memoryview(record)[place[0] : sum(place)]
                for place in parts.places
            ]
            values.append(
                list(zip(parts.keys, blobs, strict=True)) if isinstance(self.data_type, MapType) else blobs
            )
        return pa.array(values, arrow_type(self.data_type))

    def records(self, rows: Ints) -> Iterator[Iterator[bytes] | None]:
        """Yield what is stored for these rows, in pieces: read each row before the next one is requested."""
        with _OpenBlobs(self.file_io, self.paths) as files:
            for owner, start, size in zip(*self._places(rows), strict=True):
                yield None if owner < 0 else files[owner].pieces(start, size)

    def _payloads(self, rows: Ints) -> list[bytes | None]:
        payloads: list[bytes | None] = []
        with _OpenBlobs(self.file_io, self.paths) as files:
            for owner, start, size in zip(*self._places(rows), strict=True):
                if size > _MOST:
                    raise UnsupportedError(
                        f"column {self.name}: a value of {size} bytes in {self.paths[owner]} does not fit "
                        "into memory; read it with blob-as-descriptor=true"
                    )
                payloads.append(None if owner < 0 else files[owner].read(start, size))
        return payloads

    def _places(self, rows: Ints) -> tuple[list[int], list[int], list[int]]:
        return self.owner[rows].tolist(), self.starts[rows].tolist(), self.sizes[rows].tolist()


class _OpenBlobs:
    """A reader that opens blob files by their index in `paths`; a few stay open."""

    def __init__(self, file_io: FileIO, paths: Sequence[str]) -> None:
        self._file_io = file_io
        self._paths = paths
        self._open: dict[int, BlobSource] = {}

    def __enter__(self) -> _OpenBlobs:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            source.close()

    def __getitem__(self, owner: int) -> BlobSource:
        if owner not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            self._open[owner] = BlobSource(self._file_io, self._paths[owner])
        return self._open[owner]


def locate_blobs(
    file_io: FileIO, field: DataField, files: Sequence[tuple[str, DataFile]], first: int, count: int
) -> BlobColumn:
    """Locate the values of a column of `count` rows from row id `first` on. `files` come with their paths.

    It reads the index of each file. Memory: 20 bytes a row. Raises NotFoundError, CorruptDataError, also
    where files of one sequence number overlap or leave the range.
    """
    owner = np.full(count, -1, np.int32)
    starts, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    open_rows = np.ones(count, np.bool_)
    stops: dict[int, int] = {}
    for number, (path, file) in sorted(
        enumerate(files), key=lambda item: (-item[1][1].max_sequence_number, item[1][1].first_row_id or 0)
    ):
        low = (first if file.first_row_id is None else file.first_row_id) - first
        if low < stops.get(file.max_sequence_number, 0):
            raise CorruptDataError(
                path, f"it has blobs of row {first + low}, which another file of its snapshot also has"
            )
        stops[file.max_sequence_number] = low + file.row_count
        index = load_blob_index(file_io, path)
        if len(index.sizes) != file.row_count or low < 0 or low + file.row_count > count:
            raise CorruptDataError(
                path, f"it has {len(index.sizes)} blobs for {file.row_count} rows from row {low} on"
            )
        here = slice(low, low + file.row_count)
        ours = open_rows[here] & (index.sizes != OLDER)
        stored = ours & (index.sizes >= 0)
        owner[here][stored] = number
        starts[here][stored] = index.starts[stored]
        sizes[here][stored] = index.sizes[stored]
        open_rows[here] &= ~ours
    return BlobColumn(file_io, field.name, field.type, tuple(path for path, _ in files), owner, starts, sizes)


def cut_by_size(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Cut rows of these sizes into slices that fit into memory: some 64 MB, or one larger row alone."""
    large = np.flatnonzero(sizes > _BATCH_BYTES)
    marks = np.concatenate([np.flatnonzero(np.diff(np.cumsum(sizes) // _BATCH_BYTES)) + 1, large, large + 1])
    yield from pairwise(np.unique([0, *marks.tolist(), len(sizes)]).tolist())


def resolve_references(
    file_io: FileIO, root: str, name: str, column: pa.Array, data_type: DataType | None = None
) -> pa.Array:
    """Replace a column of references by the bytes they refer to; other bytes stay. `root` is the path of the
    table.

    `data_type` is BLOB (None), or a list or map of it. Raises UnsupportedError for bytes of another storage
    than the table's, InvalidOptionError for a file outside the warehouse and the roots of the catalog option
    `blob-roots`, NotFoundError, CorruptDataError.
    """
    with OpenSources(file_io, root, name) as sources:
        rows = column.to_pylist()
        if data_type is None or is_blob(data_type):
            return _binary([sources.bytes_of(row) for row in rows])
        if isinstance(data_type, MapType):
            maps = [row and [(key, sources.bytes_of(value)) for key, value in row] for row in rows]
            return pa.array(maps, column.type)
        return pa.array([row and [sources.bytes_of(value) for value in row] for row in rows], column.type)


def _binary(values: Sequence[bytes | None]) -> pa.Array:
    """Return the values as an array; a single value is not copied."""
    if len(values) != 1 or values[0] is None or len(values[0]) > _MOST:
        return pa.array(values, pa.binary())
    offsets = np.array([0, len(values[0])], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(values[0])])


def reference_sizes(column: pa.Array) -> Ints:
    """Return how many bytes each reference of a BLOB column refers to; 0 for null, some 64 MB where it is
    unknown.
    """
    sizes = np.array([0 if row is None else _size(row) for row in column.to_pylist()], np.int64)
    return np.where(sizes < 0, _BATCH_BYTES, sizes)


def _size(value: bytes) -> int:
    place = decode_reference(value) if is_reference(value) else None
    return len(value) if place is None else place[2]


class OpenSources:
    """These files are those that references of one column point into; a few stay open. It raises the
    errors of `resolve_references`.

    A row can name any file: only those below the warehouse and declared roots are opened, through no link.
    """

    def __init__(self, file_io: FileIO, root: str, name: str) -> None:
        self._file_io = reference_file_io(file_io, root)
        self._root = root
        self._name = name
        self._open: dict[str, Any] = {}

    def __enter__(self) -> OpenSources:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            source.close()

    def bytes_of(self, value: bytes | None) -> bytes | None:
        """Return the bytes that a reference refers to; None, and bytes that are no reference, are returned as
        they are.
        """
        if value is None or not is_reference(value):
            return value
        source, path, size = self._positioned_file(value)
        payload = bytes(source.read() if size < 0 else source.read(size))
        self._check_whole(path, len(payload), size)
        return payload

    def pieces_of(self, value: bytes) -> Iterator[bytes]:
        """Yield the same bytes in pieces of 1 MB; take each before another value is requested."""
        if not is_reference(value):
            yield value
            return
        source, path, size = self._positioned_file(value)
        sent = 0
        while size < 0 or sent < size:
            piece = bytes(source.read(_PIECE if size < 0 else min(_PIECE, size - sent)))
            if not piece:
                break
            sent += len(piece)
            yield piece
        self._check_whole(path, sent, size)

    def _positioned_file(self, value: bytes) -> tuple[Any, str, int]:
        """Return the file, positioned at the start of a reference, and how many bytes to read (-1: all)."""
        place = decode_reference(value)
        if place is None:
            problem = "a row has a reference to a blob that cannot be decoded"
            raise CorruptDataError(f"{self._root} column {self._name}", problem)
        uri, offset, size = place
        source = self._source(uri)
        source.seek(offset)
        return source, _path(uri), size

    def _check_whole(self, path: str, length: int, size: int) -> None:
        if length < size:
            problem = f"it has only {length} of the {size} bytes to which a row refers"
            raise CorruptDataError(path, f"{problem} in column {self._name}")

    def _source(self, uri: str) -> Any:
        path = _path(uri)
        if path in self._open:
            return self._open[path]
        if _scheme(path) != _scheme(self._root):
            raise UnsupportedError(
                f"column {self._name}: its values are at {uri}, which is not in the storage of "
                "the table; read them "
                "as references with blob-as-descriptor=true"
            )
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        try:
            self._open[path] = self._file_io.open_input(path)
        except NotFoundError as err:
            problem = f"column {self._name}: {uri}, to which a row refers, does not exist"
            raise NotFoundError(problem) from err
        return self._open[path]


def _path(uri: str) -> str:
    if not uri.startswith("file:"):
        return uri
    return "/" + uri.removeprefix("file:").lstrip("/")


def _scheme(path: str) -> str:
    return "/" if path.startswith("/") else path.partition("://")[0]
