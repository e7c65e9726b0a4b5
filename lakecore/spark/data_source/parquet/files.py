"""This module decides whether the rows of a scan are the rows of Parquet files as they are, so that Spark's
own reader of Parquet can read them. Whatever is in doubt is read by lakecore.

The reader of Spark matches columns by name, gives null for a column that a file lacks, and knows neither
merges nor deletion vectors. So every file must have the columns of the schema that is read, and every row of
it must be a row of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lakecore.errors import CorruptDataError, NotFoundError, UnsupportedError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.columns.evolve import same_values
from lakecore.read.context import ReadContext
from lakecore.read.source.scan import Scan
from lakecore.read.source.scan_facts import certain_counts, exact_splits
from lakecore.scan.split import SplitPlan
from lakecore.spark.data_source.parquet.footers import FooterCheck
from lakecore.types.datatypes import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot
from lakecore.types.sql import type_text

__all__ = ["parquet_files"]

_MOST_FILES = 10_000
"""The driver reads the footers of at most so many files; some 0.2 ms each on a local disk."""
_MICRO_DIGITS = 6
_GLOB_MARKS = frozenset("{}[]*?\\")
_HIDDEN = ("_", ".")
_PARQUET = ".parquet"
_OTHER_TYPES = frozenset({TypeRoot.TIME, TypeRoot.VARIANT, TypeRoot.BLOB})
"""Spark reads these from other Parquet types than the format stores them in, or in another form."""
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def parquet_files(scan: Scan, parts: Sequence[Any]) -> tuple[str, ...]:
    """Return the paths of the files whose rows are those of the scan, in the order of `parts`, which
    `plan_parts` has returned.

    It reads the footer of each file and compares its columns and its number of rows with the metadata of the
    table. Raises UnsupportedError with the reason if Spark's reader would not give exactly these rows.
    """
    rows = exact_splits(scan.source, scan.where)
    if rows is None:
        raise UnsupportedError(
            "conditions on other columns than partition columns, changes, system tables and row tracking are "
            "read by lakecore; give a condition on rows to the DataFrame"
        )
    if not isinstance(parts, SplitPlan):
        raise UnsupportedError("the table has so many files that tasks plan them")
    if scan.limit is not None:
        raise UnsupportedError("a scan with a limit is read by lakecore; use DataFrame.limit")
    context = rows.context
    _check_table(scan, context)
    _check_splits(context, parts, certain_counts(rows, parts))
    check = FooterCheck(scan.row_type)
    paths = []
    for path, file in _files(context, parts):
        _check_file(scan, context, path, file)
        try:
            check.check(context.file_io, path, file.row_count)
        except (CorruptDataError, NotFoundError) as err:  # the read of lakecore says what is wrong
            raise UnsupportedError(f"a file cannot be read: {err}") from err
        paths.append(path)
    return tuple(paths)


def _check_table(scan: Scan, context: ReadContext) -> None:
    if not context.paths.table_path.startswith("/"):
        raise UnsupportedError(
            f"table {context.paths.table_path} is not on a local disk: Spark needs a file "
            "system of Hadoop for it"
        )
    if context.options.row_tracking:
        raise UnsupportedError("the table tracks its rows (row-tracking.enabled)")
    if context.options.pk_clustering_override:
        raise UnsupportedError("the files of the table are ordered by other columns than its key")
    _check_names(scan.row_type, "the table")
    for field in scan.row_type:
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


def _check_splits(context: ReadContext, plan: SplitPlan, counts: Any) -> None:
    if plan.deletions:
        raise UnsupportedError("the table has deletion vectors")
    if np.any(counts < 0):
        remedy = "; compact the table" if context.keyed else ""
        raise UnsupportedError(f"rows of {int(np.sum(counts < 0))} of {len(plan)} splits are merged{remedy}")
    if plan.file_count > _MOST_FILES:
        raise UnsupportedError(f"the scan has {plan.file_count} files, more than {_MOST_FILES}")


def _files(context: ReadContext, plan: SplitPlan) -> Iterator[tuple[str, DataFile]]:
    for split in plan.with_objects():
        for file in split.files:
            yield context.data_path(split.partition, split.bucket, file), file


def _check_file(scan: Scan, context: ReadContext, path: str, file: DataFile) -> None:
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
    for field in scan.row_type:
        old = stored.get(field.name)
        if old is None or old.id != field.id or not same_values(old.type, field.type):
            raise UnsupportedError(f"file {name} was written before column {field.name} was altered")
