"""This module locates rows of a data file together with their positions in it, by the pages that can
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.lookup.key_page_marks import KeyPageMarks
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import ALL_ROWS, convert, read_columns, read_file
from lakecore.read.file.key_range import key_pages, open_pages
from lakecore.read.file.sizes import ReadSizes

__all__ = ["FileRows", "LocatedRows", "LookupSource"]


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """These are rows of `file` in key order, with the position of each in it (0-based, as written)."""

    file: DataFile
    batch: pa.RecordBatch
    positions: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LookupSource:
    """This is the bucket that rows are looked up in. `deleted` returns the deleted positions of a file, if
    any.
    """

    ctx: ReadContext
    bucket_dir: str
    deleted: Callable[[DataFile], BitMap | None]


class FileRows:
    """One file of a level: first it is marked by keys, then read once."""

    def __init__(self, source: LookupSource, file: DataFile) -> None:
        self._ctx = source.ctx
        self._bucket_dir = source.bucket_dir
        self._source = source
        self._page_marks: KeyPageMarks | None = None
        self.file = file

    def read_page_index(self) -> None:
        """Read the page index, so that keys can be marked. A file without one will be read completely."""
        pages = open_pages(self._ctx, self._bucket_dir, self.file)
        if pages is None:
            return
        try:
            pages_of_key = key_pages(self._ctx, self._bucket_dir, self.file, pages)
        finally:
            pages.close()
        if pages_of_key is not None:
            self._page_marks = KeyPageMarks(pages_of_key, self._ctx.schema.key_type)

    def mark(self, keys: pa.RecordBatch) -> None:
        """Mark the pages of these keys, which are in key order."""
        if self._page_marks is not None:
            self._page_marks.mark(keys)

    def read(self, columns: Sequence[str], sizes: ReadSizes) -> Iterator[LocatedRows]:
        """Yield the rows of the marked keys, in file order, and others where pages or the whole file are the
        smallest unit.
        """
        ctx, rows, buffer = self._ctx, sizes.batch_rows, sizes.buffer_size
        if self._page_marks is None:
            whole = read_file(ctx, self._bucket_dir, self.file, columns, ALL_ROWS, sizes)
            yield from self._locate(whole, 0, self._source.deleted(self.file))
            return
        ranges = self._page_marks.ranges()
        pages = open_pages(ctx, self._bucket_dir, self.file) if ranges else None
        if pages is None:
            return
        path = ctx.paths.data_file(self._bucket_dir, self.file)
        deleted = self._source.deleted(self.file)
        try:
            plan = read_columns(ctx, self.file, pages.schema, path, columns)
            for start, stop in ranges:
                stored = pages.batches(plan.stored, start, stop, rows, buffer)
                rows_of = (convert(ctx, path, plan, batch) for batch in stored)
                yield from self._locate(rows_of, start, deleted)
        finally:
            pages.close()

    def _locate(
        self, batches: Iterator[pa.RecordBatch], start: int, deleted: BitMap | None
    ) -> Iterator[LocatedRows]:
        for batch in batches:
            positions = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            if not deleted:
                yield LocatedRows(self.file, batch, positions)
                continue
            deleted_rows = deleted & BitMap(range(start - batch.num_rows, start))
            keeps = np.ones(batch.num_rows, bool)
            keeps[np.array(deleted_rows, np.int64) - (start - batch.num_rows)] = False
            yield LocatedRows(self.file, batch.filter(pa.array(keeps)), positions[keeps])
