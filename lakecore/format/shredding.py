"""Shredding stores columns in another layout than the table has, and describes each file's layout in its
footer.

A layout may depend on the first rows of its file, which are held in memory until it is chosen, and on
earlier files.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lakecore.format.writer_options import WrittenFile

__all__ = ["ARROW_SCHEMA", "FooterMetadataWriter", "Shredder", "ShreddingWriter", "StoredLayout"]

ARROW_SCHEMA = b"ARROW:schema"
"""The value of this footer key is the Arrow schema of the file, with metadata for each column."""


_SAMPLE_BYTES = 32 << 20


class StoredLayout(Protocol):
    """These are the stored columns of one file. It serves a single file, because it may count what it
    stores.
    """

    @property
    def schema(self) -> pa.Schema:
        """Return the stored columns."""
        ...

    def stored(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `batch` as they are stored, in their order."""
        ...

    def notes(self) -> Mapping[str, Mapping[str, str]]:
        """Return the metadata that readers need for each column, once all rows are stored; it may be
        empty.
        """
        ...


class Shredder(Protocol):
    """It chooses the layouts of the files of one writer, one after another."""

    @property
    def sample_rows(self) -> int:
        """Return the number of rows of the next file that `shape` needs."""
        ...

    def shape(self, sample: Sequence[pa.RecordBatch]) -> StoredLayout:
        """Return the layout of the next file; `sample` holds its first rows."""
        ...

    def finished(self, shape: StoredLayout) -> None:
        """Record that a file with that layout is complete."""
        ...


class FooterMetadataWriter(Protocol):
    """This is a `DataFileWriter` that can put keys and values into the footer."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    @property
    def size_estimate(self) -> int: ...

    def note(self, key: bytes, value: bytes) -> None: ...

    def close(self) -> WrittenFile: ...

    def abort(self) -> None: ...


class ShreddingWriter:
    """It writes one data file whose columns are shredded. It holds the rows of the sample, at most some 32
    MB.
    """

    def __init__(self, start: Callable[[pa.Schema], FooterMetadataWriter], shredder: Shredder) -> None:
        """Prepare the file; `start` opens it for a schema."""
        self._start = start
        self._shaper = shredder
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._shape: StoredLayout | None = None
        self._file: FooterMetadataWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see DataFileWriter."""
        if self._shape is not None:
            self._store(self._shape, batch)
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= self._shaper.sample_rows or self._waiting_bytes >= _SAMPLE_BYTES:
            self._begin()

    @property
    def size_estimate(self) -> int:
        """Return 0 while the sample is held: a file has at least that many rows."""
        return 0 if self._file is None else self._file.size_estimate

    def close(self) -> WrittenFile:
        """Finish the file; see DataFileWriter."""
        shape = self._shape or self._begin()
        assert self._file is not None
        notes = shape.notes()
        if notes:
            fields = [
                field.with_metadata({**(field.metadata or {}), **notes[field.name]})
                if field.name in notes
                else field
                for field in shape.schema
            ]
            encoded = base64.b64encode(pa.schema(fields).serialize().to_pybytes())
            self._file.note(ARROW_SCHEMA, encoded)
        size = self._file.close()
        self._shaper.finished(shape)
        return size

    def abort(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            self._file.abort()

    def _begin(self) -> StoredLayout:
        shape = self._shaper.shape(self._waiting)
        self._file = self._start(shape.schema)
        self._shape = shape
        waiting, self._waiting = self._waiting, []
        for batch in waiting:
            self._store(shape, batch)
        return shape

    def _store(self, shape: StoredLayout, batch: pa.RecordBatch) -> None:
        assert self._file is not None
        for part in shape.stored(batch):
            self._file.write(part)
