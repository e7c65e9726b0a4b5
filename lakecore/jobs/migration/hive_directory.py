"""This module finds the data files of a directory that Hive wrote, their columns, and their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakecore.format.avro.foreign_types import unreadable_fields
from lakecore.format.data_reader import open_reader
from lakecore.format.parquet.foreign_types import unreadable_columns
from lakecore.format.parquet.reader import ParquetReader
from lakecore.fs.file_io import SERVICE, FileIO, FileStatus
from lakecore.types.arrow import row_type_from_arrow
from lakecore.types.datatypes import DataField, RowType, with_nullable

__all__ = ["HiveDirectory", "SourceFile", "columns_of_file", "read_directory"]

_MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
_REMEDIES = {
    "parquet": "with signed numbers, floats of four or eight bytes, times in milliseconds, and timestamps in "
    "microseconds or as INT96",
    "avro": "with plain types, times in milliseconds, timestamps in microseconds, decimals of bytes, and "
    'unions of "null" and one type, in this order',
}
_DEEPEST = 32
_NULL = ("__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """This is a data file with the values of its partition, as the directories say them; None is null."""

    path: str
    size: int
    format: str
    partition: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class HiveDirectory:
    """These are the data files below a directory, and the columns of all of them."""

    files: tuple[SourceFile, ...]
    partition_keys: tuple[str, ...]
    columns: tuple[DataField, ...]
    """These are the columns that the files have, all of which may be null."""


def read_directory(file_io: FileIO, directory: str) -> HiveDirectory:
    """Find the files and look at the columns of each; hidden and empty ones are passed over.

    Raises NotFoundError without files, UnsupportedError for a Paimon table, links, other formats and columns
    that Java Paimon would not read, InvalidInputError for files whose partitions or columns differ.
    """
    _check_outside_of_tables(file_io, directory)
    files = tuple(_files(file_io, directory, (), 0))
    if not files:
        raise NotFoundError(f"{directory} has no data files")
    keys = tuple(name for name, _ in files[0].partition)
    columns = columns_of_file(file_io, files[0])
    types = {one.name: one.type for one in columns}
    for file in files[1:]:
        if tuple(name for name, _ in file.partition) != keys:
            raise InvalidInputError(
                f"{file.path}: its partition has other columns than {', '.join(keys) or 'none'}"
            )
        if {one.name: one.type for one in columns_of_file(file_io, file)} != types:
            raise InvalidInputError(
                f"{file.path}: its columns are not those of {files[0].path}; bring the files to the "
                f"same columns first"
            )
    both = [name for name in keys if name in types]
    if both:
        raise InvalidInputError(
            f"{directory}: {', '.join(both)} is a column of the files and of the partitions"
        )
    return HiveDirectory(files, keys, columns)


def _check_outside_of_tables(file_io: FileIO, directory: str) -> None:
    """Raise UnsupportedError for the directory of a Paimon table, one in it, and one of lakecore's own."""
    if SERVICE in directory.split("/"):
        raise UnsupportedError(f"{directory} has files of lakecore itself; restore or undo brings them back")
    scheme, mark, rest = directory.rpartition("://")
    parts = rest.split("/")
    for count in range(len(parts), 0, -1):
        path = scheme + mark + "/".join(parts[:count])
        if file_io.stat(f"{path}/schema/schema-0") is not None:
            raise UnsupportedError(f"{directory} belongs to the Paimon table at {path}; read it as a table")


def columns_of_file(file_io: FileIO, file: SourceFile) -> tuple[DataField, ...]:
    """Return the columns of a file. Raises the errors of its reader, UnsupportedError for columns that Java
    Paimon reads with other values or not at all.
    """
    if file.format == "avro":
        _check_types(file, unreadable_fields(file_io, file.path))
    reader = open_reader(file_io, file.path, format_name=file.format)
    try:
        if isinstance(reader, ParquetReader):
            _check_types(file, unreadable_columns(reader.file.schema))
        row_type: RowType = row_type_from_arrow(reader.schema)
    finally:
        reader.close()
    return tuple(DataField(0, one.name, with_nullable(one.type, True)) for one in row_type.fields)


def _check_types(file: SourceFile, problems: Mapping[str, str]) -> None:
    if problems:
        columns = "; ".join(f"{name} is {problem}" for name, problem in problems.items())
        raise UnsupportedError(
            f"{file.path}: Java Paimon does not read these columns as they are in the file: {columns}. "
            f"Write the file anew {_REMEDIES[file.format]}"
        )


def _files(
    file_io: FileIO, directory: str, partition: tuple[tuple[str, str | None], ...], depth: int
) -> Iterator[SourceFile]:
    if depth > _DEEPEST:
        raise UnsupportedError(f"{directory}: directories are nested more than {_DEEPEST} deep")
    for status in sorted(file_io.list(directory), key=lambda one: one.name):
        if status.name.startswith((".", "_")):
            continue
        if status.is_link:
            raise UnsupportedError(f"{status.path} is a symbolic link; put the file itself there")
        if status.is_dir:
            yield from _files(file_io, status.path, (*partition, _value(status)), depth + 1)
        elif status.size:
            yield SourceFile(status.path, status.size, _format(file_io, status.path), partition)


def _value(status: FileStatus) -> tuple[str, str | None]:
    name, mark, text = status.name.partition("=")
    if not mark or not name:
        raise InvalidInputError(f"{status.path}: a directory of a partition is called COLUMN=VALUE")
    return unquote(name), None if text in _NULL else unquote(text)


def _format(file_io: FileIO, path: str) -> str:
    with file_io.open_ranges(path) as source:
        begin = source.read_at(4, 0) if source.size() >= 4 else b""
    for magic, name in _MAGIC.items():
        if begin.startswith(magic):
            return name
    raise UnsupportedError(f"{path} is neither parquet, orc nor avro; move it away, or convert it first")
