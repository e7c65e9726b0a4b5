"""This module reads a data file and makes the blocks of its local copy.

Rows that a query filters out stay as keys without values, and answer that there is no row: an older row of
the key, which may pass the filter, is not current.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.lookup.query.block import BLOCK_ROWS, FILTERED_KIND, ROW_NAME, BlockPlace, encode
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.lookup.query.key_filter import KeyFilter
from lakecore.lookup.query.lookup_file import FileIndex
from lakecore.lookup.query.packed_keys import KeyColumns, Widths, concat_keys
from lakecore.lookup.query.remote_file import RemoteFile, RemoteFileError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file
from lakecore.read.file.sizes import ReadSizes
from lakecore.row.binary_batch import encode_batch
from lakecore.row.values import normal_array

__all__ = ["CopyRows", "DataFileCopy", "FilePlace"]

_BLOCK_BYTES = 1 << 20
_WIDEST_CHECK = 256
_SYSTEM = (SEQUENCE_NAME, KIND_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRows:
    """It says what a local copy has of the rows of a data file."""

    columns: tuple[str, ...]
    keep: Predicate | None
    """Rows for which it is not true have no values; None: all rows have."""
    sequences: bool
    """It tells whether sequence numbers matter."""
    serialized: bool = False
    """It tells whether `columns` are stored as one column of serialised rows."""

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Return the names of the columns of a copy that have the values."""
        return (ROW_NAME,) if self.serialized else self.columns


@dataclass(slots=True)
class _WriteState:
    """What was written so far."""

    places: list[BlockPlace] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    firsts: list[KeyColumns] = field(default_factory=list)
    hashes: list[np.ndarray[Any, Any]] = field(default_factory=list)
    widths: Widths | None = None
    last: tuple[Any, ...] | None = None
    size: int = 0
    text_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FilePlace:
    """This is a data file, and where it is."""

    ctx: ReadContext
    bucket_dir: str
    file: DataFile


class DataFileCopy:
    """It makes one copy: `parts` first, then `index`. Memory: a batch of the file, and 8 bytes a row for the
    bloom filter.
    """

    def __init__(
        self,
        place: FilePlace,
        rows: CopyRows,
        options: CacheOptions,
        remote: RemoteFile | None = None,
    ) -> None:
        """`remote` is read in place of the data file; None: the data file is read."""
        ctx = place.ctx
        self._ctx = ctx
        self._bucket_dir = place.bucket_dir
        self._file = place.file
        self._remote = remote
        self._rows = rows
        self._options = options
        self._keys = ctx.schema.trimmed_primary_keys
        self._key_type = ctx.schema.key_type
        self._entries = _WriteState()

    def parts(self) -> Iterator[bytes]:
        """Yield the blocks as bytes; each call begins anew. Raises NotFoundError when the data file does not
        exist, CorruptDataError; RemoteFileError when the file that is read in its place is no good.
        """
        state = self._entries = _WriteState()
        extra = () if self._rows.keep is None else tuple(sorted(columns_of(self._rows.keep)))
        system = (SEQUENCE_NAME,) * self._rows.sequences + (KIND_NAME,)
        columns = tuple(dict.fromkeys((*self._rows.columns, *self._keys, *extra, *system)))
        for batch in self._batches(columns):
            rows = max(64, min(BLOCK_ROWS, _BLOCK_BYTES * batch.num_rows // max(batch.nbytes, 1)))
            for start in range(0, batch.num_rows, rows):
                block = batch.slice(start, rows)
                self._enter(state, block)
                data = encode(self._stored_columns(block), self._options.codec)
                state.places.append(BlockPlace(state.size, len(data), zlib.crc32(data)))
                state.size += len(data)
                yield data

    def _batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        if self._remote is None:
            sizes = ReadSizes(batch_rows=1 << 16)
            yield from read_file(self._ctx, self._bucket_dir, self._file, columns, sizes=sizes)
            return
        for batch in self._remote.batches([name for name in columns if name not in _SYSTEM]):
            yield from (batch.slice(start, 1 << 16) for start in range(0, batch.num_rows, 1 << 16))

    def index(self) -> FileIndex:
        """Return the index of the blocks that `parts` made."""
        state = self._entries
        count, fpp = state.starts[-1], self._options.fpp
        return FileIndex(
            key_names=self._keys,
            key_type=self._key_type,
            places=tuple(state.places),
            starts=np.array(state.starts, np.int64),
            firsts=concat_keys(state.firsts, self._key_type),
            widths=state.widths or (),
            text_bytes=state.text_bytes,
            filter=None if fpp is None else KeyFilter(state.hashes, count, fpp),
        )

    def _enter(self, entries: _WriteState, block: pa.RecordBatch) -> None:
        """Note the keys of a block. Raises CorruptDataError when they are not in order."""
        keys = KeyColumns([block.column(name) for name in self._keys], self._key_type)
        first, last = (keys.take(np.array([at])) for at in (0, len(keys) - 1))
        ordered = entries.last is None or entries.last < first.values()[0]
        if ordered and sum(keys.widths) <= _WIDEST_CHECK:
            packed = keys.packed(keys.widths)
            ordered = bool((packed[1:] > packed[:-1]).all())
        if not ordered:
            if self._remote is not None:
                raise RemoteFileError(f"{self._remote.path}: its rows are not in the order of the key")
            path = self._ctx.paths.data_file(self._bucket_dir, self._file)
            raise CorruptDataError(path, "its rows are not in the order of the key, or a key comes twice")
        entries.last = last.values()[0]
        entries.starts.append(entries.starts[-1] + len(keys))
        entries.firsts.append(first)
        entries.text_bytes += keys.text_bytes
        entries.widths = (
            keys.widths if entries.widths is None else tuple(map(max, entries.widths, keys.widths))
        )
        if self._options.fpp is not None:
            entries.hashes.append(keys.hashes)

    def _stored_columns(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that are stored; kinds only where a row retracts or is filtered out."""
        kinds = block.column(KIND_NAME).to_numpy()
        if self._rows.keep is not None:
            keeps = mask(self._rows.keep, block).to_numpy(zero_copy_only=False)
            kinds = np.where(keeps, kinds, FILTERED_KIND).astype(np.int8)
        hidden = (kinds & 1).astype(bool)
        if self._rows.serialized:
            block = block.append_column(ROW_NAME, self._serialize(block))
        names = dict.fromkeys((*self._rows.stored_columns, *self._keys))
        places = pa.array(np.arange(len(kinds)), mask=hidden)
        columns = [
            block.column(name) if name in self._keys or not hidden.any() else block.column(name).take(places)
            for name in names
        ]
        fields = [block.schema.field(name).with_nullable(True) for name in names]
        if self._rows.sequences:
            columns.append(block.column(SEQUENCE_NAME))
            fields.append(block.schema.field(SEQUENCE_NAME))
        if hidden.any():
            columns.append(pa.array(kinds))
            fields.append(pa.field(KIND_NAME, pa.int8()))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _serialize(self, block: pa.RecordBatch) -> pa.Array:
        """Return the rows of a block as bytes, each without its number of fields."""
        row_type = self._ctx.schema.row_type.select(self._rows.columns)
        rows = encode_batch(
            [normal_array(block.column(one.name), one.type) for one in row_type.fields], row_type
        )
        offsets = pa.py_buffer((rows.starts * 8).astype(np.int32))
        return pa.Array.from_buffers(
            pa.binary(), len(rows), [None, offsets, pa.py_buffer(rows.words.astype("<u8"))]
        )
