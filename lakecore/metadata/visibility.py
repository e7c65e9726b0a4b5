"""Warnings for tables whose new rows no batch read shows before a compaction. Pure."""

from __future__ import annotations

from lakecore.metadata.options import BucketMode, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool

__all__ = ["visibility_warnings"]

_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read", parse_bool, False, "Whether reads merge rows of level 0, too."
)
_FIXED = Option(
    "postpone.batch-write-fixed-bucket", parse_bool, True, "Whether batch writes assign real buckets."
)


def visibility_warnings(schema: TableSchema, options: TableOptions) -> tuple[str, ...]:
    """Return the warnings for a user who creates, writes, describes or compacts the table; empty for most
    tables.

    Spec: batch reads of tables with deletion vectors or merge-engine=first-row skip level 0, and all batch
    reads skip rows of postponed buckets.
    """
    warnings = []
    if schema.primary_keys and options.write_only and (reason := _waits_for_levels(schema, options)):
        warnings.append(
            f"new rows are not read before a compaction ({reason}), and with write-only=true writers do "
            "not compact: the table reads as empty until a compaction"
        )
    if options.bucket_mode is BucketMode.POSTPONE and not _FIXED.read(schema.options):
        warnings.append(
            "new rows have no bucket (bucket=-2, postpone.batch-write-fixed-bucket=false) and are not "
            "read until a compaction"
        )
    return tuple(warnings)


def _waits_for_levels(schema: TableSchema, options: TableOptions) -> str | None:
    if options.merge_engine is MergeEngine.FIRST_ROW:
        return "merge-engine=first-row"
    if options.deletion_vectors and not _MERGE_ON_READ.read(schema.options):
        return "deletion-vectors.enabled=true"
    return None
