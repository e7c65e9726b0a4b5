"""This module writes and describes the new files of a unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from lakecore.compact.engine.work import UnitTable, attempt_name
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.store.external_places import external_bucket
from lakecore.verify.digest.columns import StoredFile
from lakecore.write.files.rolling import FileSpec

__all__ = ["AppendUnit", "compacted_files", "file_spec", "numbered", "rewritten_files", "stored"]


class AppendUnit(Protocol):
    """`file_prefix`: begins the names of new files; the unit adds the attempt."""

    @property
    def table(self) -> UnitTable: ...

    @property
    def bucket_dir(self) -> str: ...

    @property
    def files(self) -> tuple[DataFile, ...]: ...

    @property
    def file_prefix(self) -> str: ...


def compacted_files(
    table: UnitTable, directory: str, prefix: str, *, keyed: bool, level: int = 0
) -> FileSpec:
    """Return the specification of files that one attempt at a unit writes to a bucket; their names have
    `prefix` and the attempt's name.
    """
    spec = rewritten_files(table, directory, f"{prefix}-{attempt_name(table.clock)}", level)
    return replace(spec, keyed=keyed)


def rewritten_files(table: UnitTable, directory: str, name_prefix: str, level: int = 0) -> FileSpec:
    """Return the specification of files that replace others, of the table's schema and size."""
    paths, options = table.reading.paths, table.schema.options
    return FileSpec(
        directory=directory,
        external=external_bucket(paths.table_path, directory, options),
        name_prefix=name_prefix,
        schema=table.schema,
        keyed=table.reading.keyed,
        level=level,
        source=FileSource.COMPACT,
        target_size=table.reading.options.target_file_size,
        options=options,
    )


def file_spec(unit: AppendUnit, first_sequence: int) -> FileSpec:
    """Return the specification of new files. Rule of the format: sequence numbers continue from the first
    input's.
    """
    spec = compacted_files(unit.table, unit.bucket_dir, unit.file_prefix, keyed=False)
    return replace(spec, first_sequence=first_sequence, tracked=unit.table.reading.options.row_tracking)


def numbered(unit: AppendUnit, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """Return the files with the range of their sequence numbers, where rows keep their own."""
    if not unit.table.reading.options.row_tracking:
        return files
    low = min(file.min_sequence_number for file in unit.files)
    high = max(file.max_sequence_number for file in unit.files)
    return tuple(replace(file, min_sequence_number=low, max_sequence_number=high) for file in files)


def stored(unit: AppendUnit, file: DataFile) -> StoredFile:
    """Return a file of the unit's bucket, as the proof opens it."""
    return StoredFile(unit.table.reading.paths.data_file(unit.bucket_dir, file), file)
