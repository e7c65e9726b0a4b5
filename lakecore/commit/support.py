"""What this release must not commit to. Pure."""

from __future__ import annotations

from lakecore.errors import UnsupportedError
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot

__all__ = ["check_committable"]

_STRICT_MODE = "commit.strict-mode.last-safe-snapshot"


def check_committable(schema: TableSchema, latest: Snapshot | None, kind: CommitKind) -> None:
    """Raises UnsupportedError where a commit of this release would damage the table.

    Row ids, deletion vectors and other indexes must be rewritten with the files they describe; an append
    leaves them alone, and the hash index of dynamic buckets survives a compaction.
    """
    options = TableOptions.from_schema(schema)
    for on, key in (
        (options.deletion_vectors, "deletion-vectors.enabled"),
        (options.row_tracking, "row-tracking.enabled"),
        (options.data_evolution, "data-evolution.enabled"),
        (_STRICT_MODE in schema.options, _STRICT_MODE),
    ):
        if on:
            raise UnsupportedError(f"commits to tables with option {key} are not supported by this release")
    if latest is None or latest.index_manifest is None or kind is CommitKind.APPEND:
        return
    if kind is not CommitKind.COMPACT or options.bucket_mode is not BucketMode.HASH_DYNAMIC:
        raise UnsupportedError(
            f"snapshot {latest.id} has an index ({latest.index_manifest}) that a commit of kind {kind.value} "
            "would have to rewrite; this release cannot"
        )
