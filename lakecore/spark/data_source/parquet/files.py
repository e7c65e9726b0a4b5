"""This module decides which rows of a scan are the rows of Parquet files as they are, so that Spark's own
reader of Parquet can read them. Whatever is in doubt is read by lakecore: the whole scan, or single splits.

The reader of Spark matches columns by name, gives null for a column that a file lacks, and knows neither
merges nor deletion vectors. So every file must have the columns of the schema that is read, and every row of
it must be a row of the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.index.definition import READ_ENABLED, index_specs
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.predicate.tree import Predicate, columns_of, conjunction, conjuncts
from lakecore.read.columns.evolve import same_values
from lakecore.read.context import ReadContext
from lakecore.read.source.scan import Scan
from lakecore.read.source.scan_facts import certain_counts, exact_splits
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.scan.plan import plan_sections
from lakecore.scan.split import Split, SplitPlan
from lakecore.spark.data_source.parquet.footers import FooterCheck
from lakecore.types.datatypes import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot
from lakecore.types.sql import type_text

__all__ = ["FilePlan", "parquet_files"]

_MOST_FILES = 10_000
"""The driver reads the footers of at most so many files; some 0.2 ms each on a local disk."""
_MOST_REMOTE_FILES = 1_000
_MOST_REFUSED = 16
"""After so many splits that lakecore reads, and none that Spark reads, the driver reads no more footers."""
_MICRO_DIGITS = 6
_GLOB_MARKS = frozenset("{}[]*?\\")
_HIDDEN = ("_", ".")
_PARQUET = ".parquet"
_HDFS = "hdfs://"
_OTHER_TYPES = frozenset({TypeRoot.TIME, TypeRoot.VARIANT, TypeRoot.BLOB})
"""Spark reads these from other Parquet types than the format stores them in, or in another form."""
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(frozen=True, kw_only=True)
class FilePlan:
    """It says which files of a scan Spark reads, and which splits lakecore reads."""

    paths: tuple[str, ...]
    """Spark reads all rows of these files, in the order of the splits."""
    row_type: RowType
    """These are the columns that it reads: those of the scan, then others of `where`."""
    where: Predicate | None
    """Rows of the files count where this is true; None: all rows."""
    others: tuple[Split, ...]
    """Lakecore reads these splits."""
    reason: str | None
    """It says why Spark does not read `others`; None without such splits."""


def parquet_files(scan: Scan, parts: Sequence[Any], *, alone: bool = False) -> FilePlan:
    """Return which files have rows of the scan as they are. `parts` are what `plan_parts` has returned.
    `alone`: Spark reads all of them, or none.

    It reads the footer of each file and compares its columns and its number of rows with the metadata of the
    table. Raises UnsupportedError with the reason if Spark's reader would give none of the rows exactly.
    """
    rows = exact_splits(scan.source, None)
    if rows is None:
        raise UnsupportedError("changes, system tables and row tracking are read by lakecore")
    if not isinstance(parts, SplitPlan):
        raise UnsupportedError("the table has so many files that tasks plan them")
    if scan.limit is not None:
        raise UnsupportedError("a scan with a limit is read by lakecore; use DataFrame.limit")
    context = rows.context
    where = _where_of_rows(scan.where, context, alone=alone)
    row_type = _read_columns(scan, context, where)
    stored = context.schema.row_type.select(row_type.names)  # of ROWs with the fields that are not read
    _check_table(stored, context)
    _check_count(context, parts)
    paths, others, reason = _divide(rows, parts, stored, alone=alone)
    if not paths:
        raise UnsupportedError(reason or "no split has rows")
    return FilePlan(paths=paths, row_type=row_type, where=where, others=others, reason=reason)


def _where_of_rows(where: Predicate | None, context: ReadContext, *, alone: bool) -> Predicate | None:
    """Return what the plan did not decide of the condition. Raises UnsupportedError where lakecore has file
    indexes for it.
    """
    partitions = frozenset(context.schema.partition_keys)
    rest = conjunction(tuple(part for part in conjuncts(where) if not columns_of(part) <= partitions))
    if rest is None or alone or not READ_ENABLED.read(context.schema.options):
        return rest
    indexed = {spec.column for spec in index_specs(context.schema)} & columns_of(rest)
    if indexed:
        raise UnsupportedError(f"the file indexes of column {min(indexed)} are read by lakecore only")
    return rest


def _read_columns(scan: Scan, context: ReadContext, where: Predicate | None) -> RowType:
    names = scan.row_type.names
    others = sorted(columns_of(where) - set(names)) if where is not None else []
    return RowType((*scan.row_type.fields, *(context.schema.row_type.field(name) for name in others)))


def _divide(
    rows: SnapshotRows, plan: SplitPlan, row_type: RowType, *, alone: bool
) -> tuple[tuple[str, ...], tuple[Split, ...], str | None]:
    """Return the files for Spark, the splits for lakecore, and why lakecore reads these. Of a split that
    merges rows, Spark reads the files whose keys no other file may have.
    """
    check = FooterCheck(row_type)
    paths: list[str] = []
    sections = plan_sections(plan, rows.context.schema.key_type)
    merges = certain_counts(rows, sections.plan) < 0
    reason = _merge_reason(rows.context, len(set(sections.origin[merges].tolist())), len(plan))
    if alone and reason is not None:
        return (), tuple(plan.with_objects()), reason
    for_lakecore = merges.copy()
    refused = 0
    certain = sections.plan.select(~merges).with_objects()
    for number, split in zip(np.flatnonzero(~merges).tolist(), certain, strict=True):
        try:
            paths += _checked_files(rows.context, split, row_type, check)
        except UnsupportedError as err:
            refused += 1
            for_lakecore[number] = True
            reason = reason or str(err)
            if alone or (not paths and refused == _MOST_REFUSED):
                return (), tuple(plan.with_objects()), reason
    return tuple(paths), tuple(sections.joined(for_lakecore).with_objects()), reason


def _merge_reason(context: ReadContext, merged: int, count: int) -> str | None:
    if not merged:
        return None
    remedy = "; compact the table" if context.keyed else ""
    return f"rows of {merged} of {count} splits are merged{remedy}"


def _checked_files(context: ReadContext, split: Split, row_type: RowType, check: FooterCheck) -> list[str]:
    if any(split.deletions):
        raise UnsupportedError("the table has deletion vectors")
    paths = []
    for file in split.files:
        path = context.data_path(split.partition, split.bucket, file)
        _check_file(row_type, context, path, file)
        try:
            check.check(context.file_io, path, file.row_count)
        except (CorruptDataError, NotFoundError) as err:  # the read of lakecore says what is wrong
            raise UnsupportedError(f"a file cannot be read: {err}") from err
        paths.append(path)
    return paths


def _check_count(context: ReadContext, plan: SplitPlan) -> None:
    most = _MOST_FILES if _is_local(context) else _MOST_REMOTE_FILES
    if plan.file_count > most:
        raise UnsupportedError(f"the scan has {plan.file_count} files, more than {most}")


def _is_local(context: ReadContext) -> bool:
    return context.paths.table_path.startswith("/")


def _check_table(row_type: RowType, context: ReadContext) -> None:
    if not _is_local(context) and not context.paths.table_path.startswith(_HDFS):
        raise UnsupportedError(
            f"table {context.paths.table_path} is neither on a local disk nor on HDFS: Spark needs jars and "
            "credentials of its own for such a store"
        )
    if context.options.row_tracking:
        raise UnsupportedError("the table tracks its rows (row-tracking.enabled)")
    if context.options.pk_clustering_override:
        raise UnsupportedError("the files of the table are ordered by other columns than its key")
    _check_names(row_type, "the table")
    for field in row_type:
        _check_type(field.type, field.name)


def _check_type(data_type: DataType, column: str) -> None:
    """Raise UnsupportedError for a type that Spark does not read from Parquet as lakecore does."""
    match data_type:
        case AtomicType(root=root, precision=precision):
            if root in _OTHER_TYPES or (root in _TIMESTAMPS and precision > _MICRO_DIGITS):
                raise UnsupportedError(f"column {column} has the type {type_text(data_type)}")
        case ArrayType(element=element):
            _check_type(element, column)
        case MapType(key=key, value=value):
            _check_type(key, column)
            _check_type(value, column)
        case RowType():
            _check_names(data_type, f"column {column}")
            for field in data_type:
                _check_type(field.type, column)
        case _:
            raise UnsupportedError(f"column {column} has the type {type_text(data_type)}")


def _check_names(row_type: RowType, subject: str) -> None:
    """Raise UnsupportedError for names that are one name for Spark, which ignores case by default."""
    if len({name.lower() for name in row_type.names}) < len(row_type.names):
        raise UnsupportedError(f"{subject} has names that differ only in case")


def _check_file(row_type: RowType, context: ReadContext, path: str, file: DataFile) -> None:
    name = os.path.basename(path)
    if not name.endswith(_PARQUET):
        raise UnsupportedError(f"file {name} is no Parquet file")
    if file.external_path is not None or file.write_cols is not None:
        raise UnsupportedError(f"file {name} is outside of the table, or has some of its columns only")
    if name.startswith(_HIDDEN) or _GLOB_MARKS.intersection(path):
        raise UnsupportedError(f"path {path} is hidden from Spark, or is a pattern of names for it")
    if file.schema_id == context.schema.id:
        return
    stored = {field.name: field for field in context.file_schema(file.schema_id).fields}
    for field in row_type:
        old = stored.get(field.name)
        if old is None or old.id != field.id or not same_values(old.type, field.type):
            raise UnsupportedError(f"file {name} was written before column {field.name} was altered")
