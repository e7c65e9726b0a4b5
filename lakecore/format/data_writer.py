"""This module writes Arrow batches to a data file of any format, as the other implementations of the table
format read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import pyarrow as pa

from lakecore.errors import UnsupportedError
from lakecore.format.avro.writer import AvroWriter
from lakecore.format.encoders import Encoders
from lakecore.format.orc.writer import OrcWriter
from lakecore.format.parquet.writer import ParquetWriter
from lakecore.format.row.writer import RowWriter
from lakecore.format.shredding import FooterMetadataWriter, Shredder, ShreddingWriter
from lakecore.format.writer_options import WriterOptions, WrittenFile
from lakecore.fs.file_io import FileIO, OutputFile

__all__ = ["DataFileWriter", "WriterOptions", "WrittenFile", "open_shredding_writer", "open_writer"]


class DataFileWriter(Protocol):
    """It writes one new data file. After an error call `abort`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; columns are those of the schema, in its order."""
        ...

    @property
    def size_estimate(self) -> int:
        """Return the bytes that the file would have if it were closed now, exact enough for rolling."""
        ...

    def close(self) -> WrittenFile:
        """Finish the file. Raises UnavailableError when storage refuses."""
        ...

    def abort(self) -> None:
        """Remove what was written."""
        ...


_WRITERS: dict[str, Callable[[OutputFile, pa.Schema, WriterOptions], DataFileWriter]] = {
    "parquet": ParquetWriter,
    "orc": OrcWriter,
    "avro": AvroWriter,
    "row": RowWriter,
}
_SHAPABLE: dict[str, Callable[[OutputFile, pa.Schema, WriterOptions], FooterMetadataWriter]] = {
    "parquet": ParquetWriter,
    "orc": OrcWriter,
}
_Writer = TypeVar("_Writer")


def open_writer(
    file_io: FileIO,
    path: str,
    file_format: str,
    schema: pa.Schema,
    options: WriterOptions,
    encoders: Encoders | None = None,
) -> DataFileWriter:
    """Start a data file of `file_format`. `schema` has ids and nullability, as `types.arrow.arrow_schema`
    makes them. `encoders` encode parquet files; other formats are encoded by the calling thread.

    Raises UnsupportedError for another format or a codec or column type the format cannot hold.
    """
    if file_format not in _WRITERS:
        raise UnsupportedError(
            f"{path}: data files of format {file_format!r} cannot be written; this release writes "
            + ", ".join(sorted(_WRITERS))
        )
    if file_format == "parquet":
        return _open(file_io, path, lambda output: ParquetWriter(output, schema, options, encoders))
    return _open(file_io, path, lambda output: _WRITERS[file_format](output, schema, options))


def open_shredding_writer(
    file_io: FileIO, path: str, file_format: str, shredder: Shredder, options: WriterOptions
) -> DataFileWriter:
    """Start a data file whose columns `shredder` lays out. It is opened with its first rows, or by
    `close`.
    """
    make = _SHAPABLE[file_format]
    return ShreddingWriter(
        lambda schema: _open(file_io, path, lambda output: make(output, schema, options)), shredder
    )


def _open(file_io: FileIO, path: str, make: Callable[[OutputFile], _Writer]) -> _Writer:
    output = file_io.open_output(path)
    try:
        return make(output)
    except BaseException:
        output.abort()
        raise
