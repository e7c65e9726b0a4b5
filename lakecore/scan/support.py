"""This module decides what this release can read, write and compact; anything else is refused before a
byte is written.

The rule: rows are never wrong, and a changelog, an index or a row id is never silently left out. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakecore.errors import UnsupportedError
from lakecore.fs.allowed_paths import EXTERNAL_PATHS
from lakecore.index.definition import index_specs
from lakecore.metadata.dedicated_columns import (
    BLOB_AS_DESCRIPTOR,
    has_dedicated_column_types,
    holds_blobs,
    is_blob,
    managed_columns,
    view_columns,
)
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.metadata.options import (
    PK_CLUSTERING_OVERRIDE,
    ROW_TRACKING,
    BucketMode,
    ChangelogProducer,
    MergeEngine,
    TableOptions,
)
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_bool
from lakecore.store.external_places import external_places

__all__ = [
    "TABLE_TYPES",
    "check_compactable",
    "check_deletable",
    "check_emits_changes",
    "check_index_files",
    "check_readable",
    "check_rescalable",
    "check_row_ids",
    "check_rows_streamable",
    "check_streamable",
    "check_updatable",
    "check_writable",
    "has_snapshots",
]

_READ_ELSEWHERE = (
    ("scan.fallback-branch", "its missing partitions are read from another branch"),
    ("scan.primary-branch", "its rows are read from another branch first"),
    ("chain-table.enabled", "its partitions continue partitions of other branches"),
)
_CHAIN = "chain-table.enabled"
_EXTERNAL_BLOBS = "blob-external-storage-field"
_POSTPONED_TOO = "postpone.merge-on-read"
_QUERY_RIGHTS = "query-auth.enabled"
_STRICT_PARTITIONS = "partition.timestamp-format.strict"
_UPSERT_KEY = "upsert-key"
_ORC_TIMES = "orc.timestamp-ltz.legacy.type"
_STREAM_MODE = "stream-scan-mode"
_ONE_BUCKET = "scan.bucket"
_OFF = ("", "false")
TABLE_TYPES = ("table", "materialized-table")
"""Tables with these values of the option `type` are stored as the format specifies."""


def has_snapshots(schema: TableSchema) -> bool:
    """Return whether the option `type` is that of a table with snapshots."""
    return schema.options.get("type", TABLE_TYPES[0]).strip().lower() in TABLE_TYPES


def check_readable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless a batch read of `table` returns exactly its rows.

    `schema` and `options` are those of the snapshot that is read. A changelog producer matters in one case
    only (`_check_sequence_of_levels`): else it makes a change stream, and the rows are the same.
    """
    _check_kind(table, schema)
    if schema.primary_keys:
        _check_sequence_of_levels(table, options, "read")
    if _is_on(schema.options, _CHAIN):
        remedy = "partitions continue those of other branches; use another engine"
        raise _refuse(table, _CHAIN, "true", "read", remedy)
    _check_rights(table, schema.options, "read")
    if one := schema.options.get(_ONE_BUCKET, "").strip():
        raise _refuse(table, _ONE_BUCKET, one, "read", "it reads all buckets: unset it")
    if options.bucket_mode is BucketMode.POSTPONE and _is_on(schema.options, _POSTPONED_TOO):
        remedy = "rows without a bucket would be left out; compact, and unset it for this run"
        raise _refuse(table, _POSTPONED_TOO, "true", "read", remedy)


def check_streamable(table: str, schema: TableSchema) -> None:
    """Raise UnsupportedError unless the changes of `table` can be read as they were written.

    Merge engines and deletion vectors do not matter, because nothing is merged.
    """
    _check_kind(table, schema)
    _check_one_branch(table, schema.options)
    _check_rights(table, schema.options, "stream")


def _check_rights(table: str, raw: Mapping[str, str], verb: str) -> None:
    """Refuse rows and columns that the reader may not be allowed to see."""
    if _is_on(raw, _QUERY_RIGHTS):
        remedy = "only the catalog that grants rights knows which rows and columns; use another engine"
        raise _refuse(table, _QUERY_RIGHTS, "true", verb, remedy)


def check_emits_changes(table: str, raw: Mapping[str, str]) -> None:
    """Raise UnsupportedError if a stream would emit files, for compactions elsewhere, instead of changes."""
    value = raw.get(_STREAM_MODE, "")
    if value.lower() not in ("", "none"):
        raise _refuse(table, _STREAM_MODE, value, "stream", "it is for compaction services: unset it")


def check_rows_streamable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError if a stream would emit parts of rows as rows.

    Rule of the format: the engines that make one row of several need a changelog for streams.
    """
    folds = options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
    if schema.primary_keys and folds and options.changelog_producer is ChangelogProducer.NONE:
        remedy = (
            "without a changelog it has parts of rows, as they were written: set changelog-producer to "
            f"lookup or full-compaction, or stream {table}$audit_log, which shows rows as they were written"
        )
        raise _refuse(table, "merge-engine", options.merge_engine.value, "stream", remedy)


def _check_one_branch(table: str, raw: Mapping[str, str]) -> None:
    for key, meaning in _READ_ELSEWHERE:
        value = raw.get(key, "")
        if value.lower() not in _OFF:
            raise _refuse(table, key, value, "read", f"{meaning}; use another engine")


_OWN_BUCKETS = (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC)
_OTHER_TREES = {
    "chain-table.enabled": "its deletes must stay on the last level",
    "pk-vector.index.columns": "its index would miss new rows",
    "pk-btree.index.columns": "its index would miss new rows",
    "pk-bitmap.index.columns": "its index would miss new rows",
    "pk-full-text.index.columns": "its index would miss new rows",
}


def check_index_files(table: str, snapshot_id: int, files: Iterable[IndexFile]) -> None:
    """Raise UnsupportedError if a compaction of the snapshot would have to apply deletion vectors.

    They count even if option `deletion-vectors.enabled` was switched off later. Other index files only
    make lookups faster, and are left unchanged.
    """
    for file in files:
        if file.index_type == DELETION_VECTORS and (file.row_count or file.deletions):
            raise UnsupportedError(
                f"table {table}: snapshot {snapshot_id} has deletion vectors ({file.file_name}), which this "
                "release does not apply when compacting; use another engine"
            )


def check_row_ids(table: str, options: TableOptions, files: Iterable[DataFile]) -> None:
    """Raise UnsupportedError if rows of `files` should keep row ids that they were never given.

    A Paimon release that does not know row tracking (before 1.3) writes to such tables, but assigns no
    ids.
    """
    for file in files if options.row_tracking else ():
        if file.lacks_row_ids:
            raise UnsupportedError(
                f"table {table}: option {ROW_TRACKING.key}=true, but the rows of "
                f"{file.file_name} have no row ids: a "
                "Paimon version without row tracking wrote them; read the table and overwrite "
                "it with its rows: new files "
                "get ids"
            )


def check_writable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless rows written to `table` become what its options promise."""
    _check_new_files(table, schema, options, "write")
    _check_written_rows(table, schema)


def _check_written_rows(table: str, schema: TableSchema) -> None:
    """Refuse options that want other rows or values than those that would be written."""
    raw = schema.options
    if _is_on(raw, _STRICT_PARTITIONS):
        remedy = "the times in names of partitions are not checked; unset it"
        raise _refuse(table, _STRICT_PARTITIONS, "true", "write", remedy)
    if keys := raw.get(_UPSERT_KEY, "").strip():
        remedy = "rows would be added where it wants them replaced; use another engine"
        raise _refuse(table, _UPSERT_KEY, keys, "write", remedy)
    if _ORC_TIMES in raw and not _is_on(raw, _ORC_TIMES):
        remedy = "files of ORC would get the type that Paimon wrote before; unset it, or use another format"
        raise _refuse(table, _ORC_TIMES, raw[_ORC_TIMES], "write", remedy)


def _check_blobs(table: str, schema: TableSchema) -> None:
    if value := schema.options.get(_EXTERNAL_BLOBS, "").strip():
        raise _refuse(
            table, _EXTERNAL_BLOBS, value, "write", "its blobs are in an external storage; use another engine"
        )
    nested = [field.name for field in schema.fields if holds_blobs(field.type) and not is_blob(field.type)]
    if nested and BLOB_AS_DESCRIPTOR.read(schema.options):
        remedy = f"column {nested[0]} has lists or maps of BLOB: unset the option and write the bytes"
        raise _refuse(table, BLOB_AS_DESCRIPTOR.key, "true", "write", remedy)


def check_deletable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless rows of `table` can be deleted by a condition."""
    check_writable(table, schema, options)
    if not schema.primary_keys:
        if not options.deletion_vectors:
            remedy = "without a key rows are deleted by deletion vectors: set the option first"
            raise _refuse(table, "deletion-vectors.enabled", "false", "delete rows of", remedy)
        return
    for on, key, value in (
        (options.ignore_delete, "ignore-delete", "true"),
        (options.rowkind_field is not None, "rowkind.field", str(options.rowkind_field)),
        (
            options.merge_engine is not MergeEngine.DEDUPLICATE,
            "merge-engine",
            options.merge_engine.value,
        ),
    ):
        if on:
            remedy = "a written -D would not remove the row; write what the merge expects instead"
            raise _refuse(table, key, value, "delete rows of", remedy)


def check_rows_updatable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless whole rows of `table` can be replaced by others.

    Rule of the merge engines, as Spark's UPDATE and MERGE INTO of Paimon have it: the last row of a key wins.
    """
    check_writable(table, schema, options)
    engine = options.merge_engine
    if schema.primary_keys:
        if engine not in (MergeEngine.DEDUPLICATE, MergeEngine.PARTIAL_UPDATE):
            remedy = "a written row does not replace the row of its key; write what the merge expects"
            raise _refuse(table, "merge-engine", engine.value, "update rows of", remedy)
        return
    if options.data_evolution:
        remedy = "its columns are stored apart: use update_columns"
        raise _refuse(table, "data-evolution.enabled", "true", "update rows of", remedy)
    if options.row_tracking:
        remedy = "an updated row would lose its _ROW_ID; delete and append rows instead"
        raise _refuse(table, "row-tracking.enabled", "true", "update rows of", remedy)
    if has_dedicated_column_types(schema.row_type):
        raise UnsupportedError(
            f"table {table} has columns in files of their own, which lakecore does not update; append "
            f"new rows"
        )


def check_updatable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless single columns of rows of `table` can be written."""
    check_writable(table, schema, options)
    if not options.data_evolution:
        remedy = "a data file has all columns: overwrite the rows, or create another table"
        raise _refuse(table, "data-evolution.enabled", "false", "update columns of", remedy)


def check_compactable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless compacting `table` preserves everything that its options promise."""
    _check_new_files(table, schema, options, "compact")
    if options.record_expire_ms is not None and not schema.primary_keys:
        text = schema.options.get("record-level.expire-time", str(options.record_expire_ms))
        remedy = "rows of tables without a primary key do not expire; unset it"
        raise _refuse(table, "record-level.expire-time", text, "compact", remedy)


def check_rescalable(table: str, schema: TableSchema, options: TableOptions) -> None:
    """Raise UnsupportedError unless the number of buckets of `table` can be changed by rewriting them."""
    check_compactable(table, schema, options)
    if options.pk_clustering_override:
        remedy = "its files are not sorted by key; use another engine"
        raise _refuse(table, PK_CLUSTERING_OVERRIDE.key, "true", "rescale", remedy)


def _check_new_files(table: str, schema: TableSchema, options: TableOptions, verb: str) -> None:
    """Check what both writing and compacting refuse."""
    raw = schema.options
    _check_kind(table, schema)
    _check_changelog(table, schema, options, verb)
    if verb == "write":
        _check_blobs(table, schema)
    index_specs(schema)  # each of them can be made
    blobs = any(holds_blobs(field.type) for field in schema.fields)
    if (options.data_evolution or blobs) and external_places(raw) is not None:
        remedy = "blobs, and columns in files of their own, are written in the table only; use another engine"
        raise _refuse(table, EXTERNAL_PATHS.key, raw[EXTERNAL_PATHS.key], verb, remedy)


def _check_sequence_of_levels(table: str, options: TableOptions, verb: str) -> None:
    """Refuse tables where the row of the lowest level wins whatever its sequence: readers of Java Paimon take
    it for merged with those above, but the compactions of this producer do not look rows up.
    """
    full = options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    if full and options.force_lookup and options.sequence_fields:
        remedy = (
            "with changelog-producer=full-compaction and sequence.field a row with a lower sequence can hide "
            "one of the levels above; unset it"
        )
        raise _refuse(table, "force-lookup", "true", verb, remedy)


def _check_changelog(table: str, schema: TableSchema, options: TableOptions, verb: str) -> None:
    if not schema.primary_keys:
        return
    full = options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    _check_sequence_of_levels(table, options, verb)
    if full and options.force_lookup and options.merge_engine is not MergeEngine.DEDUPLICATE:
        remedy = (
            "with changelog-producer=full-compaction rows of the last level would be missing in "
            "the changelog; unset it"
        )
        raise _refuse(table, "force-lookup", "true", verb, remedy)
    _check_other_order(table, options, verb)
    for key, meaning in _OTHER_TREES.items():
        value = schema.options.get(key, "")
        if value.strip() not in ("", "false"):
            raise _refuse(table, key, value, verb, f"{meaning}; use another engine")


def _check_other_order(table: str, options: TableOptions, verb: str) -> None:
    """Check what files that are sorted by other columns than the key need (rule of the format)."""
    if not options.pk_clustering_override:
        return
    first_row = options.merge_engine is MergeEngine.FIRST_ROW
    late = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    for wrong, problem in (
        (not options.clustering_columns, "needs clustering.columns"),
        (
            not first_row and options.merge_engine is not MergeEngine.DEDUPLICATE,
            "needs merge-engine=deduplicate",
        ),
        (not first_row and not options.deletion_vectors, "needs deletion-vectors.enabled=true"),
        (options.changelog_producer in late, "needs changelog-producer none or input"),
        (options.sequence_fields, "does not go with sequence.field"),
        (options.record_expire_ms is not None, "does not go with record-level.expire-time"),
        (options.bucket_mode not in _OWN_BUCKETS, "needs rows that stay in their partition and bucket"),
        (options.snapshot_ordering and verb == "compact", "does not go with sequence.snapshot-ordering"),
    ):
        if wrong:
            raise _refuse(
                table, PK_CLUSTERING_OVERRIDE.key, "true", verb, f"it {problem}; use another engine"
            )


def _check_kind(table: str, schema: TableSchema) -> None:
    if not has_snapshots(schema):
        raise _refuse(
            table,
            "type",
            schema.options["type"],
            "open",
            f"this release opens only the types {' and '.join(TABLE_TYPES)}, and reads format-table and "
            "object-table of a REST catalog",
        )
    if schema.primary_keys:
        _check_keyed_blobs(table, schema)


def _check_keyed_blobs(table: str, schema: TableSchema) -> None:
    """Check the rules of the format for blobs beside a key, and which of them are supported."""
    raw = schema.options
    if views := [name for name in view_columns(raw) if name in schema.row_type.names]:
        remedy = "this release does not resolve references to blobs of other tables; use another engine"
        raise _refuse(table, "blob-view-field", views[0], "open", remedy)
    managed = managed_columns(schema.row_type, raw)
    options = TableOptions.from_schema(schema)
    for key, value, only in (
        ("merge-engine", options.merge_engine.value, MergeEngine.DEDUPLICATE.value),
        ("changelog-producer", options.changelog_producer.value, ChangelogProducer.NONE.value),
    ):
        if managed and value != only:
            remedy = f"BLOB columns of a primary-key table ({managed[0]}) need {key}={only}"
            raise _refuse(table, key, value, "open", remedy)


def _is_on(raw: Mapping[str, str], key: str) -> bool:
    try:
        return parse_bool(raw.get(key, "false"))
    except ValueError:
        return True


def _refuse(table: str, key: str, value: str, verb: str, remedy: str) -> UnsupportedError:
    return UnsupportedError(f"table {table}: option {key}={value}: this release cannot {verb} it: {remedy}")
