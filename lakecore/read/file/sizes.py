"""This module sets the batch and buffer sizes of open files, so that a merge of any number of runs stays
within a budget.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.format.data_reader import BATCH_ROWS, open_reader
from lakecore.fs.file_io import FileIO

__all__ = ["DEFAULT_SIZES", "ReadSizes", "batch_rows", "row_bytes", "sizes_for"]

_BUDGET = 32 << 20  # 50 runs of 1 KB rows: a worker peaks at 540 MB, with 48 MB at 600
_BUFFER_BUDGET = 32 << 20
_MIN_ROWS = 16
_MAX_ROWS = 1 << 15  # of 64 k rows the columns of a window are large enough to fault in fresh pages each time
_BUFFER = (64 << 10, 1 << 20)
_SAMPLED = 4


@dataclass(frozen=True, slots=True)
class ReadSizes:
    """These are the rows of a batch, and the bytes of the read buffer of each column."""

    batch_rows: int = BATCH_ROWS
    buffer_size: int = _BUFFER[1]


DEFAULT_SIZES = ReadSizes()


def batch_rows(width: int) -> int:
    """Return the rows of a batch of a file that is read alone; a row takes `width` bytes in memory."""
    return min(max(_BUDGET // max(width, 1), _MIN_ROWS), BATCH_ROWS)


def sizes_for(runs: int, columns: int, width: int) -> ReadSizes:
    """Return the sizes for `runs` files that are open at once, with rows of `width` bytes in memory.

    A merge holds a batch of every run, their concatenation and its result: three times the batches. In
    addition it holds the decoded pages, one per column and run, whose size the writer of the file chose.
    """
    rows = _BUDGET // (max(runs, 1) * max(width, 1))
    buffer = _BUFFER_BUDGET // (max(runs, 1) * max(columns, 1))
    return ReadSizes(min(max(rows, _MIN_ROWS), _MAX_ROWS), min(max(buffer, _BUFFER[0]), _BUFFER[1]))


def row_bytes(file_io: FileIO, paths: Sequence[str], columns: Collection[str] | None = None) -> int:
    """Return the bytes of a decoded row of `columns`, by the footers of some of the files, which are read.

    The widest file counts; whole rows count where a file lacks one of the columns by this name. A missing
    file is ignored here: reading its rows raises the error.
    """
    widest = 1
    step = max(len(paths) // _SAMPLED, 1)
    for path in paths[::step]:
        try:
            reader = open_reader(file_io, path)
        except NotFoundError:
            continue
        try:
            widest = max(widest, reader.row_bytes(columns))
        finally:
            reader.close()
    return widest
