"""This module reads some consecutive rows of a data file of any format, with as little decoding as the
format allows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pyarrow as pa

from lakecore.format.data_reader import BATCH_ROWS, DataFileReader, file_format, open_reader
from lakecore.format.parquet.pages import FilePages
from lakecore.format.parquet.reader import ParquetReader
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema

__all__ = ["RowsReader", "open_rows"]


_FEW_ROWS = 20_000
"""Row groups of so many rows, as pages have them, are read as a whole."""


class _SmallGroups:
    """This is a parquet file of many small row groups, of which those that have the rows are read as a
    whole: to look at the pages of all of them would take longer.
    """

    def __init__(self, reader: ParquetReader) -> None:
        self._reader = reader
        self.schema = reader.schema
        self.num_rows = reader.num_rows

    def batches(
        self, columns: Sequence[str], start: int, stop: int, batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows [start, stop) of the file. Raises CorruptDataError."""
        metadata = self._reader.metadata
        counts = [metadata.row_group(number).num_rows for number in range(self._reader.row_groups)]
        ends = list(accumulate(counts))
        first = bisect_right(ends, start)
        last = bisect_left(ends, stop)
        skipped = ends[first - 1] if first else 0
        groups = range(first, min(last + 1, len(ends)))
        yield from _within(self._reader.batches(columns, batch_size, groups), start - skipped, stop - skipped)

    def close(self) -> None:
        self._reader.close()


class RowsReader:
    """This is one open data file, of which the rows [start, stop) are read; without a span all of them
    are.
    """

    def __init__(
        self, source: FilePages | _SmallGroups | DataFileReader, span: tuple[int, int] | None
    ) -> None:
        self._source = source
        self._span = span

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their stored names."""
        return self._source.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order. Raises CorruptDataError."""
        if isinstance(self._source, FilePages | _SmallGroups):
            start, stop = self._span or (0, self._source.num_rows)
            return self._source.batches(columns, start, stop, BATCH_ROWS)
        batches = self._source.batches(columns)
        return batches if self._span is None else _within(batches, *self._span)

    def close(self) -> None:
        self._source.close()


def open_rows(
    file_io: FileIO, path: str, schema: TableSchema | None, span: tuple[int, int] | None
) -> RowsReader:
    """Open a file for the rows `span`; None: all.

    Cost: of a parquet file with a page index the pages that hold the rows, of others all rows up to the last.
    Raises NotFoundError, CorruptDataError, UnsupportedError.
    """
    if span is not None and file_format(path) == "parquet":
        return RowsReader(_part_reader(ParquetReader(file_io, path)), span)
    return RowsReader(open_reader(file_io, path, schema=schema), span)


def _part_reader(reader: ParquetReader) -> FilePages | _SmallGroups | ParquetReader:
    """Return what reads a part of an open file with the least work. Raises CorruptDataError."""
    if reader.row_groups > 1 and reader.num_rows <= _FEW_ROWS * reader.row_groups:
        return _SmallGroups(reader)
    try:
        return FilePages.of(reader) or reader
    except BaseException:
        reader.close()
        raise


def _within(batches: Iterator[pa.RecordBatch], start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from `start` to `stop`; it ends with the batch of the last row."""
    first = 0
    for batch in batches:
        low, high = max(start - first, 0), min(stop - first, batch.num_rows)
        first += batch.num_rows
        if low < high:
            yield batch.slice(low, high - low)
        if first >= stop:
            return
