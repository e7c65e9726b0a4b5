"""Rows of a data file together with where they lie in it, read by the pages that can matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.lookup.wanted_pages import WantedPages
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import convert, read_columns, read_file
from lakecore.read.file.key_range import key_pages, open_pages
from lakecore.read.file.sizes import ReadSizes

__all__ = ["FileRows", "Located", "LookupSource"]


@dataclass(frozen=True, slots=True)
class Located:
    """Rows of `file` in key order and the position of each in it (0-based, as written)."""

    file: DataFile
    batch: pa.RecordBatch
    positions: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LookupSource:
    """The bucket that rows are looked up in. `deleted`: positions of a file that do not count, if any."""

    ctx: ReadContext
    bucket_dir: str
    deleted: Callable[[DataFile], BitMap | None]


class FileRows:
    """One file of a level: first marked by keys, then read once."""

    def __init__(self, source: LookupSource, file: DataFile) -> None:
        self._ctx = source.ctx
        self._bucket_dir = source.bucket_dir
        self._source = source
        self._wanted: WantedPages | None = None
        self.file = file

    def look_into(self) -> None:
        """Read the page index, so that keys can be marked. Without one the file will be read whole."""
        pages = open_pages(self._ctx, self._bucket_dir, self.file)
        if pages is None:
            return
        try:
            found = key_pages(self._ctx, self._bucket_dir, self.file, pages)
        finally:
            pages.close()
        if found is not None:
            self._wanted = WantedPages(found, self._ctx.schema.key_type)

    def mark(self, keys: pa.RecordBatch) -> None:
        """Rows of these keys are wanted. Keys in key order."""
        if self._wanted is not None:
            self._wanted.mark(keys)

    def read(self, columns: Sequence[str], sizes: ReadSizes) -> Iterator[Located]:
        """Wanted rows, in file order; more than that where pages or the whole file are the least unit."""
        ctx, rows, buffer = self._ctx, sizes.batch_rows, sizes.buffer_size
        if self._wanted is None:
            whole = read_file(ctx, self._bucket_dir, self.file, columns, batch_size=rows, buffer_size=buffer)
            yield from self._located(whole, 0, self._source.deleted(self.file))
            return
        ranges = self._wanted.ranges()
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
                yield from self._located(rows_of, start, deleted)
        finally:
            pages.close()

    def _located(
        self, batches: Iterator[pa.RecordBatch], start: int, deleted: BitMap | None
    ) -> Iterator[Located]:
        for batch in batches:
            positions = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            if not deleted:
                yield Located(self.file, batch, positions)
                continue
            gone = deleted & BitMap(range(start - batch.num_rows, start))
            kept = np.ones(batch.num_rows, bool)
            kept[np.array(gone, np.int64) - (start - batch.num_rows)] = False
            yield Located(self.file, batch.filter(pa.array(kept)), positions[kept])
