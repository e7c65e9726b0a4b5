"""This job makes a table of the data files of a directory. They are copied as they are, and the source stays.

All files become one snapshot. When the copy fails, the table that this run created is dropped again; a table
without a snapshot, which a killed run or a failed creation left, is completed by the repeated run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.column_text import parse_type_text
from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.privileges.grants import Privilege
from lakecore.clock import Clock, SystemClock
from lakecore.commit.request import CommitRequest
from lakecore.errors import AlreadyExistsError, CommitUncertainError, InvalidInputError, LakeError
from lakecore.executor import Executor
from lakecore.format.data_reader import open_reader
from lakecore.fs.file_io import FileIO, OutputFile
from lakecore.fs.resolve import plain_path
from lakecore.jobs.definitions.migration import MigrateTable as Job
from lakecore.jobs.migration.hive_directory import HiveDirectory, SourceFile, read_directory
from lakecore.jobs.runner.report import Report
from lakecore.jobs.runner.rights import grants_of
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_STATS, DataFile, FileSource
from lakecore.row.binary_row import encode_row
from lakecore.row.partition_values import partition_value
from lakecore.row.text_columns import parse_texts
from lakecore.table import Table
from lakecore.types.datatypes import AtomicType, DataField

__all__ = ["Job", "run"]

_USER = "lakecore-migrate-table"
_CHUNK = 8 << 20


def run(job: Job, lake: Catalog, executor: Executor | None = None, clock: Clock | None = None) -> Report:
    """Make the table of one directory. Raises AlreadyExistsError for a table that has rows or other columns,
    and the errors of `read_directory`, before anything is written; PrivilegeError for a user without ADMIN,
    because the files are read with the rights of lakecore.
    """
    grants_of(lake).check(Privilege.ADMIN)
    clock = clock or SystemClock()
    started = clock.monotonic()
    source = read_directory(lake.file_io, plain_path(job.source))
    definition = _definition(job, source)
    report = Report(
        table=job.target,
        job=job.command,
        dry_run=job.dry_run,
        files=len(source.files),
        bytes=sum(file.size for file in source.files),
    )
    if job.dry_run:
        return report
    table, is_new = _new_table(lake, job.target, definition)
    try:
        snapshots = _adopt(table, source, lake.file_io)
    except CommitUncertainError:
        raise
    except BaseException:
        with suppress(LakeError):  # the first error says more
            if is_new and table.latest_snapshot() is None:
                lake.drop_table(job.target, purge=True)
        raise
    return replace(
        report,
        snapshot=snapshots[-1],
        snapshots=snapshots,
        seconds=round(clock.monotonic() - started, 3),
    )


def _definition(job: Job, source: HiveDirectory) -> TableDefinition:
    unknown = [name for name in job.partition_types if name not in source.partition_keys]
    if unknown:
        raise InvalidInputError(
            f"{', '.join(unknown)}: the partitions of {job.source} have the columns "
            f"{', '.join(source.partition_keys) or 'none'}"
        )
    types = {name: parse_type_text(job.partition_types.get(name, "STRING")) for name in source.partition_keys}
    for name, kind in types.items():
        if not isinstance(kind, AtomicType):
            raise InvalidInputError(f"partition column {name}: type {kind} is no type of partitions")
    partition = tuple(DataField(0, name, kind) for name, kind in types.items())
    options = {"bucket": "-1", "file.format": source.files[0].format, **job.table_options}
    if options["bucket"] != "-1":
        raise InvalidInputError("option bucket: the files are not divided into buckets; leave the option out")
    return TableDefinition(
        columns=(*source.columns, *partition), partition_keys=source.partition_keys, options=options
    )


def _new_table(lake: Catalog, name: str, definition: TableDefinition) -> tuple[Table, bool]:
    """Create the table, or open the one that a killed run left; return it with whether it was created."""
    try:
        return lake.create_table(name, definition), True
    except AlreadyExistsError:
        table = lake.load_table(name)
        columns = [(one.name, one.type) for one in table.schema.fields]
        if table.latest_snapshot() is None and columns == [
            (one.name, one.type) for one in definition.columns
        ]:
            return table, False
        raise


def _adopt(table: Table, source: HiveDirectory, file_io: FileIO) -> tuple[int, ...]:
    """Copy the files and commit them. Raises the errors of storage and of the commit."""
    by_partition: dict[bytes, list[DataFile]] = {}
    for file in source.files:
        partition = _partition(table, file)
        by_partition.setdefault(partition, []).append(_copy_of(table, partition, file, file_io))
    messages = [
        CommitMessage(partition=partition, bucket=0, total_buckets=-1, new_files=tuple(files))
        for partition, files in by_partition.items()
    ]
    result = table._committer().commit(messages, CommitRequest(user=_USER, identifier=1))
    return result.snapshot_ids


def _partition(table: Table, file: SourceFile) -> bytes:
    """Return the partition of a file. Raises InvalidInputError for text that is no value of its column."""
    partition_type = table.schema.partition_type
    values = []
    for name, text in file.partition:
        typed = parse_texts(pa.array([text], pa.string()), partition_type.field(name), 1)[0].as_py()
        values.append(None if typed is None else partition_value(name, typed, partition_type))
    return encode_row(values, partition_type)


def _copy_of(table: Table, partition: bytes, file: SourceFile, file_io: FileIO) -> DataFile:
    """Copy a file into the directory of its bucket; return its description, without statistics."""
    storage, clock = table._stores.file_io, table._stores.clock
    copy = DataFile(
        file_name=f"data-{clock.fresh_id()}-0.{file.format}",
        file_size=file.size,
        row_count=0,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=table.schema.id,
        creation_time=clock.now_ms(),
        file_source=FileSource.APPEND,
        value_stats=EMPTY_STATS,
        value_stats_cols=(),
    )
    path = table._read_context().data_path(partition, 0, copy)
    size = _copy_bytes(file_io, file, storage.open_output(path))
    reader = open_reader(storage, path)
    try:
        rows = reader.num_rows
    finally:
        reader.close()
    return replace(copy, file_size=size, row_count=rows, max_sequence_number=max(rows - 1, 0))


def _copy_bytes(file_io: FileIO, file: SourceFile, target: OutputFile) -> int:
    size = 0
    try:
        with file_io.open_ranges(file.path) as source:
            while chunk := source.read_at(min(_CHUNK, file.size - size), size):
                target.write(chunk)
                size += len(chunk)
    except BaseException:
        target.abort()
        raise
    target.close()
    return size
