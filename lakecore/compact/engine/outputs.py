"""The new files of a unit that rewrites files of an append table: how they are written and described."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from lakecore.compact.engine.naming import attempt_name
from lakecore.compact.engine.work import UnitTable
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.verify.digest.columns import StoredFile
from lakecore.write.files.rolling import FileSpec

__all__ = ["AppendUnit", "file_spec", "numbered", "stored"]


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


def file_spec(unit: AppendUnit, first_sequence: int) -> FileSpec:
    """Rule of the format: sequence numbers go on from the first input's."""
    schema = unit.table.schema
    attempt = attempt_name(unit.table.clock)
    return FileSpec(
        directory=unit.bucket_dir,
        name_prefix=f"{unit.file_prefix}-{attempt}",
        schema=schema,
        keyed=False,
        source=FileSource.COMPACT,
        target_size=unit.table.reading.options.target_file_size,
        options=schema.options,
        first_sequence=first_sequence,
        tracked=unit.table.reading.options.row_tracking,
    )


def numbered(unit: AppendUnit, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """Where rows keep their own sequence numbers, files say between which these lie."""
    if not unit.table.reading.options.row_tracking:
        return files
    low = min(file.min_sequence_number for file in unit.files)
    high = max(file.max_sequence_number for file in unit.files)
    return tuple(replace(file, min_sequence_number=low, max_sequence_number=high) for file in files)


def stored(unit: AppendUnit, file: DataFile) -> StoredFile:
    """A file of the unit's bucket, as the proof opens it."""
    return StoredFile(unit.table.reading.paths.data_file(unit.bucket_dir, file), file)
