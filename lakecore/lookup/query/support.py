"""This module decides which tables a local query answers; it refuses the others by name. Pure.

The rule is that of Paimon's PrimaryKeyPartialLookupTable: the nearest row of a key must be its current row.
"""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.dedicated_columns import holds_blobs
from lakecore.metadata.options import BucketMode, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema

__all__ = ["check_lookups"]

_REMEDY = (
    "set changelog-producer=lookup, deletion-vectors.enabled=true or force-lookup=true, with which "
    "compactions look rows up, or scan it"
)


def check_lookups(table: str, schema: TableSchema, options: TableOptions, columns: tuple[str, ...]) -> None:
    """Raise UnsupportedError unless the current row of a key can be found level by level."""
    if not schema.primary_keys:
        raise UnsupportedError(f"table {table} has no primary key, so its rows cannot be looked up: scan it")
    if not schema.trimmed_primary_keys:
        raise UnsupportedError(
            f"table {table}: its primary key consists of partition columns only, so its rows cannot be "
            "looked up: scan it"
        )
    if options.bucket_mode is BucketMode.BUCKET_UNAWARE:
        raise _refuse(table, "bucket", str(options.bucket), "rows have no bucket")
    if options.pk_clustering_override:
        raise _refuse(table, "pk-clustering-override", "true", "files are not sorted by the key")
    blobs = [name for name in columns if holds_blobs(schema.row_type.field(name).type)]
    if blobs:
        raise UnsupportedError(
            f"table {table}: column {blobs[0]} has blobs, which cannot be looked up; name other columns"
        )
    if not options.needs_lookup:
        _check_unmerged(table, options)


def _check_unmerged(table: str, options: TableOptions) -> None:
    """Check a table whose level 0 is searched too."""
    if options.merge_engine is not MergeEngine.DEDUPLICATE:
        problem = "a row may have to be merged from several files"
        raise _refuse(table, "merge-engine", options.merge_engine.value, problem, _REMEDY)
    if options.sequence_fields:
        value = ",".join(options.sequence_fields)
        problem = "a file with newer rows may have rows that do not win"
        raise _refuse(table, "sequence.field", value, problem, _REMEDY)
    if options.snapshot_ordering:
        problem = "files do not tell the order of their rows"
        raise _refuse(table, "sequence.snapshot-ordering", "true", problem, _REMEDY)


def _refuse(table: str, key: str, value: str, problem: str, remedy: str = "scan it") -> UnsupportedError:
    return UnsupportedError(
        f"table {table}: option {key}={value}: its rows cannot be looked up, because {problem}; {remedy}"
    )
