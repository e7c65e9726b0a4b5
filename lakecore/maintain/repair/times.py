"""ORC files with times that Java cannot read are written again: the same rows under another name.

Lakecore wrote such files before it knew better: times before 1970 with parts of a millisecond, stored with
nanoseconds below 0. Rows, levels and statistics stay what they are. A file that deletion vectors name, or
whose rows have columns in others, stays: compactions write it again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakecore.errors import CorruptDataError
from lakecore.format.canonical import canonical
from lakecore.format.data_reader import DataFileReader, open_reader
from lakecore.format.data_writer import WriterOptions, WrittenFile, open_writer
from lakecore.maintain.repair.context import Action, ActionResult, Parameters, RepairContext
from lakecore.maintain.repair.copies import copy_files, replace_with_copies
from lakecore.maintain.repair.plan import ActionPreview
from lakecore.maintain.repair.statistics import live_files_at
from lakecore.maintain.target import Target
from lakecore.metadata.key_value import key_value_type
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.schema import TableSchema
from lakecore.read.file.row_ids import tracked_type
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from lakecore.write.options import FileRules

__all__ = ["TIMES"]


def _find(target: Target, parameters: Parameters) -> dict[str, ManifestEntry]:
    """Return the live files that fsck reported, by path. The cost is that of a plan of the table, when there
    are any.
    """
    latest = target.snapshots.latest()
    paths = frozenset(parameters.get("unread", ()))
    if latest is None or not paths:
        return {}
    entries = live_entries(target.manifests.read(target.manifests.data_manifests(latest)))
    index = target.manifests.read_index(latest.index_manifest)
    deleted_files = {vector.data_file for file in index for vector in file.deletions}
    problems = {path: entries.row(row) for path, row in live_files_at(target, entries, paths)}
    return {path: entry for path, entry in problems.items() if entry.file.file_name not in deleted_files}


def _look(context: RepairContext, branch: str, parameters: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    problems = _find(target, parameters)
    if not problems:
        return None
    return ActionPreview(
        why="Java cannot read times before 1970 in these files, which an earlier lakecore wrote",
        changes=tuple(f"write {path} again" for path in sorted(problems)),
        paths=frozenset(problems),
    )


def _write_again(
    context: RepairContext, branch: str, parameters: Parameters, paths: frozenset[str]
) -> ActionResult:
    """Rewrite the files in a COMPACT. The cost is one read and write of the files, with a batch and a stripe
    in memory. Raises CommitConflictError when others replaced one of the files meanwhile; then nothing is
    left behind.
    """
    target = context.at(branch)
    problems = _find(target, parameters).items()
    chosen = (entry for path, entry in problems if f"write {path} again" in paths)
    return replace_with_copies(context, target, chosen, partial(_copy, target))


def _copy(target: Target, folder: str, file: DataFile, copy: DataFile) -> DataFile:
    """Return the file after it was written again, with copies of those beside it."""
    written = _write(target, f"{folder}/{file.file_name}", file, f"{folder}/{copy.file_name}")
    copy_files(target, folder, list(zip(file.extra_files, copy.extra_files, strict=True)))
    return replace(copy, file_size=written.size)


def _write(target: Target, source: str, file: DataFile, path: str) -> WrittenFile:
    """Write the file again. Raises UnsupportedError for times that ORC has no form for."""
    schema = target.schemas.load(file.schema_id)
    raw = target.schema.options
    options = WriterOptions.from_options(raw, FileRules.of(raw, file.level).with_format("orc").compression)
    reader = open_reader(target.file_io, source, schema=schema)
    try:
        columns = _columns(reader, schema, source)
        stored = arrow_schema(columns)
        writer = open_writer(target.file_io, path, "orc", stored, options)
        try:
            for batch in reader.batches():
                arrays = [canonical(batch.column(field.name), field.type, source) for field in columns]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=stored))
            return writer.close()
        except BaseException:
            writer.abort()
            raise
    finally:
        reader.close()


def _columns(reader: DataFileReader, schema: TableSchema, path: str) -> RowType:
    """Return the columns of the file, in its order."""
    row_type = key_value_type(schema) if schema.primary_keys else tracked_type(schema.row_type)
    by_name = {field.name: field for field in row_type.fields}
    missing = [name for name in reader.schema.names if name not in by_name]
    if missing:
        raise CorruptDataError(path, f"its schema has no columns {', '.join(missing)}")
    return RowType(tuple(by_name[name] for name in reader.schema.names))


TIMES = Action(look=_look, do=_write_again)
