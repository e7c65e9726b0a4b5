"""This module reads data files of any format as Arrow batches, with columns as stored. Memory is bounded:
it has no whole-file buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from lakecore.errors import UnsupportedError
from lakecore.format.avro.reader import AvroReader
from lakecore.format.orc.reader import OrcReader
from lakecore.format.parquet.reader import BUFFER_SIZE, ParquetReader
from lakecore.format.row.layout import row_columns
from lakecore.format.row.reader import RowReader
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema

__all__ = ["BATCH_ROWS", "BUFFER_SIZE", "DataFileReader", "file_format", "open_reader"]

BATCH_ROWS = 65536

_HADOOP_CODECS = {"gz", "bz2", "deflate", "snappy", "lz4", "zst", "zstd"}


class DataFileReader(Protocol):
    """It reads one open data file."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, with their stored names and the types that `batches` yields."""
        ...

    @property
    def num_rows(self) -> int: ...

    @property
    def row_groups(self) -> int:
        """Return the number of row groups (parquet), stripes (orc) or 1 (avro)."""
        ...

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """Estimate the bytes of one decoded row of `columns`, or of a whole row if that is not known."""
        ...

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = BATCH_ROWS,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in file order. `columns` are stored names, in the order wanted; None means all.

        Raises CorruptDataError naming the file when its bytes break the format.
        """
        ...

    def close(self) -> None: ...


_READERS: dict[str, Callable[[FileIO, str], DataFileReader]] = {"orc": OrcReader, "avro": AvroReader}


def file_format(path: str) -> str:
    """Return the format by the last extension, or by the one before if the last names a codec
    (`x.avro.gz`).
    """
    parts = path.rsplit("/", 1)[-1].split(".")
    if len(parts) > 2 and parts[-1] in _HADOOP_CODECS:
        parts.pop()
    return parts[-1].lower()


def open_reader(
    file_io: FileIO,
    path: str,
    *,
    schema: TableSchema | None = None,
    buffer_size: int = BUFFER_SIZE,
    format_name: str | None = None,
) -> DataFileReader:
    """Open a data file. `buffer_size` is the number of bytes read ahead for each parquet column.

    `schema` is the one that the file was written with, which says what columns a file of format row has;
    without it such a file gives only its counts. `format_name` is the format of a file whose name does not
    end with it. Raises NotFoundError, CorruptDataError, or UnsupportedError for other formats.
    """
    kind = format_name or file_format(path)
    if kind == "parquet":
        return ParquetReader(file_io, path, buffer_size)
    if kind == "row":
        return RowReader(file_io, path, None if schema is None else row_columns(schema, path))
    if kind not in _READERS:
        raise UnsupportedError(
            f"{path}: data files of format {kind!r} cannot be read; this release reads "
            + ", ".join(sorted({"parquet", "row", *_READERS}))
        )
    return _READERS[kind](file_io, path)
