"""This module has options that several packages obey, and their typed view."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.metadata.file_names import parse_directory, parse_prefix
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum, parse_list, parse_size

if TYPE_CHECKING:
    from lakecore.metadata.schema import TableSchema

__all__ = [
    "BY_SNAPSHOT",
    "CLUSTERING_COLUMNS",
    "INDEX_BESIDE_DATA",
    "PK_CLUSTERING_OVERRIDE",
    "POSTPONE_BUCKET",
    "RECORD_TIME_FIELD",
    "WRITE_ONLY",
    "BucketFunction",
    "BucketMode",
    "ChangelogProducer",
    "MergeEngine",
    "SequenceOrder",
    "TableOptions",
    "clustering_columns_of",
]


class MergeEngine(Enum):
    """It says how rows of one key become one row (option `merge-engine`)."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(Enum):
    """It says how the change stream is made (option `changelog-producer`)."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class BucketFunction(Enum):
    """It says how a bucket key becomes a bucket number (option `bucket-function.type`)."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class SequenceOrder(Enum):
    """It says how sequence fields are sorted."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class BucketMode(Enum):
    """It says how rows are assigned to buckets; it is derived from option `bucket` and the primary key."""

    HASH_FIXED = "fixed"
    HASH_DYNAMIC = "dynamic"
    KEY_DYNAMIC = "key-dynamic"
    BUCKET_UNAWARE = "unaware"
    POSTPONE = "postpone"


BUCKET = Option("bucket", int, -1, "Number of buckets; -1 dynamic or unaware, -2 postpone.")
BUCKET_FUNCTION = Option(
    "bucket-function.type", parse_enum(BucketFunction), BucketFunction.DEFAULT, "Bucket hash."
)
MERGE_ENGINE = Option(
    "merge-engine", parse_enum(MergeEngine), MergeEngine.DEDUPLICATE, "How rows of one key become one row."
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    parse_enum(ChangelogProducer),
    ChangelogProducer.NONE,
    "How the change stream is made.",
)
SEQUENCE_FIELD: Option[tuple[str, ...]] = Option(
    "sequence.field", parse_list, (), "User columns that order rows of one key."
)
SEQUENCE_ORDER = Option(
    "sequence.field.sort-order",
    parse_enum(SequenceOrder),
    SequenceOrder.ASCENDING,
    "Order of sequence fields.",
)
ROWKIND_FIELD: Option[str | None] = Option("rowkind.field", str, None, "Column that holds the row kind.")
IGNORE_DELETE = Option(
    "ignore-delete", parse_bool, False, "Drop retracting input.",
    ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)  # fmt: skip
IGNORE_UPDATE_BEFORE = Option("ignore-update-before", parse_bool, False, "Drop -U input.")
DELETION_VECTORS = Option("deletion-vectors.enabled", parse_bool, False, "Deletion vector mode.")
DELETION_VECTORS_MERGE = Option(
    "deletion-vectors.merge-on-read", parse_bool, False, "Merge level 0 too where there are deletion vectors."
)
THIN_MODE = Option("data-file.thin-mode", parse_bool, False, "Do not store _KEY_ columns.")
WRITE_ONLY = Option(
    "write-only", parse_bool, False, "Writers neither compact nor expire.", ("write.compaction-skip",)
)
FILE_FORMAT = Option("file.format", str.lower, "parquet", "Format of new data files.")
TARGET_FILE_SIZE: Option[int | None] = Option(
    "target-file-size", parse_size, None, "Rolling size; default 128 MB (primary key), 256 MB (append)."
)
PARTITION_DEFAULT_NAME = Option(
    "partition.default-name", str, "__DEFAULT_PARTITION__", "Directory for null and blank values."
)
PARTITION_LEGACY_NAME = Option("partition.legacy-name", parse_bool, True, "Paths from internal values.")
DATA_FILE_PREFIX = Option("data-file.prefix", parse_prefix, "data-", "Prefix of data file names.")
CHANGELOG_FILE_PREFIX = Option(
    "changelog-file.prefix", parse_prefix, "changelog-", "Prefix of changelog file names."
)
PATH_DIRECTORY: Option[str | None] = Option(
    "data-file.path-directory", parse_directory, None, "Sub-directory for data under the table."
)
ROW_TRACKING = Option("row-tracking.enabled", parse_bool, False, "Row ids for append tables.")
BY_SNAPSHOT = Option(
    "sequence.snapshot-ordering", parse_bool, False, "Rows of a key are ordered by snapshot, not by number."
)
PK_CLUSTERING_OVERRIDE = Option(
    "pk-clustering-override", parse_bool, False, "Files of keyed tables are sorted by other columns."
)
CLUSTERING_COLUMNS: Option[tuple[str, ...]] = Option(
    "clustering.columns", parse_list, (), "Columns to cluster by.", ("sink.clustering.by-columns",)
)
DATA_EVOLUTION = Option("data-evolution.enabled", parse_bool, False, "Column-wise files.")
FORCE_LOOKUP = Option("force-lookup", parse_bool, False, "Lookup compaction without changelog.")
ROW_DEDUPLICATE = Option(
    "changelog-producer.row-deduplicate", parse_bool, False, "No -U and +U for rows that stayed the same."
)
ROW_DEDUPLICATE_IGNORED: Option[tuple[str, ...]] = Option(
    "changelog-producer.row-deduplicate-ignore-fields", parse_list, (), "Columns that do not count as change."
)
RECORD_EXPIRE: Option[int | None] = Option(
    "record-level.expire-time", parse_duration_ms, None, "Row time to live (ms), applied while compacting."
)
RECORD_TIME_FIELD = Option("record-level.time-field", str, "", "Column with the time of a row.")
INDEX_BESIDE_DATA = Option(
    "index-file-in-data-file-dir", parse_bool, False, "Index files lie in the directories of the buckets."
)

_PRIMARY_KEY_TARGET = 128 << 20
_APPEND_TARGET = 256 << 20

POSTPONE_BUCKET = -2
"""This is the number of the bucket whose rows wait for another one; option `bucket` has it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """These are the options of a table as typed values. They are made once per table, from its schema."""

    bucket: int
    bucket_mode: BucketMode
    bucket_function: BucketFunction
    merge_engine: MergeEngine
    changelog_producer: ChangelogProducer
    sequence_fields: tuple[str, ...]
    sequence_order: SequenceOrder
    snapshot_ordering: bool
    """It tells whether rows of a key are ordered by snapshot (option `sequence.snapshot-ordering`)."""
    pk_clustering_override: bool
    """It tells whether files above level 0 are sorted by `clustering_columns` instead of the key."""
    clustering_columns: tuple[str, ...]
    """These columns sort the rows of files above level 0 if `pk_clustering_override` is set."""
    rowkind_field: str | None
    ignore_delete: bool
    ignore_update_before: bool
    deletion_vectors: bool
    deletion_vectors_merge: bool
    thin_mode: bool
    write_only: bool
    row_tracking: bool
    data_evolution: bool
    force_lookup: bool
    row_deduplicate: bool
    row_deduplicate_ignored: tuple[str, ...]
    record_expire_ms: int | None
    """It says how long rows live, in milliseconds; None if they never expire."""
    file_format: str
    target_file_size: int
    """A data file is complete at this size in bytes."""
    data_file_prefix: str
    changelog_file_prefix: str
    path_directory: str | None
    partition_default_name: str
    partition_legacy_name: bool

    @classmethod
    def from_schema(cls, schema: TableSchema) -> TableOptions:
        """Read the options of a schema. Raises InvalidOptionError naming the first invalid option and its
        value.
        """
        raw: Mapping[str, str] = schema.options
        bucket = BUCKET.read(raw)
        keyed = bool(schema.primary_keys)
        target = TARGET_FILE_SIZE.read(raw)
        return cls(
            bucket=bucket,
            bucket_mode=_mode(bucket, schema),
            bucket_function=BUCKET_FUNCTION.read(raw),
            merge_engine=MERGE_ENGINE.read(raw),
            changelog_producer=CHANGELOG_PRODUCER.read(raw),
            sequence_fields=SEQUENCE_FIELD.read(raw),
            sequence_order=SEQUENCE_ORDER.read(raw),
            snapshot_ordering=keyed and BY_SNAPSHOT.read(raw),
            pk_clustering_override=keyed and PK_CLUSTERING_OVERRIDE.read(raw),
            clustering_columns=clustering_columns_of(schema),
            rowkind_field=ROWKIND_FIELD.read(raw),
            ignore_delete=IGNORE_DELETE.read(raw),
            ignore_update_before=IGNORE_UPDATE_BEFORE.read(raw),
            deletion_vectors=DELETION_VECTORS.read(raw),
            deletion_vectors_merge=DELETION_VECTORS_MERGE.read(raw),
            thin_mode=THIN_MODE.read(raw),
            write_only=WRITE_ONLY.read(raw),
            row_tracking=ROW_TRACKING.read(raw),
            data_evolution=DATA_EVOLUTION.read(raw),
            force_lookup=FORCE_LOOKUP.read(raw),
            row_deduplicate=ROW_DEDUPLICATE.read(raw),
            row_deduplicate_ignored=ROW_DEDUPLICATE_IGNORED.read(raw),
            record_expire_ms=RECORD_EXPIRE.read(raw),
            file_format=FILE_FORMAT.read(raw),
            target_file_size=target or (_PRIMARY_KEY_TARGET if keyed else _APPEND_TARGET),
            data_file_prefix=DATA_FILE_PREFIX.read(raw),
            changelog_file_prefix=CHANGELOG_FILE_PREFIX.read(raw),
            path_directory=PATH_DIRECTORY.read(raw),
            partition_default_name=PARTITION_DEFAULT_NAME.read(raw),
            partition_legacy_name=PARTITION_LEGACY_NAME.read(raw),
        )

    @property
    def skips_level_0(self) -> bool:
        """Return whether batch reads of a table with a key skip level 0: above it a key has one live row.

        Rule of the format for deletion vectors (unless they are merged) and for merge engine first-row.
        """
        if self.deletion_vectors:
            return not self.deletion_vectors_merge
        return self.merge_engine is MergeEngine.FIRST_ROW

    @property
    def marks_replaced_rows(self) -> bool:
        """Return whether a row that a compaction replaces in a file that stays is marked as deleted there."""
        return self.deletion_vectors and self.merge_engine is not MergeEngine.FIRST_ROW

    @property
    def needs_lookup(self) -> bool:
        """Return whether a compaction of level 0 looks up, in the levels above, the rows that it replaces
        (rule of the format).
        """
        return (
            self.changelog_producer is ChangelogProducer.LOOKUP
            or self.deletion_vectors
            or self.merge_engine is MergeEngine.FIRST_ROW
            or self.force_lookup
        )


def clustering_columns_of(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns that sort the rows of files above level 0; empty if that is the key, or arrival."""
    by_other = bool(schema.primary_keys) and PK_CLUSTERING_OVERRIDE.read(schema.options)
    return CLUSTERING_COLUMNS.read(schema.options) if by_other else ()


def _mode(bucket: int, schema: TableSchema) -> BucketMode:
    keyed = bool(schema.primary_keys)
    if bucket > 0:
        return BucketMode.HASH_FIXED
    if bucket == -1 and keyed:
        within = set(schema.partition_keys) <= set(schema.primary_keys)
        return BucketMode.HASH_DYNAMIC if within else BucketMode.KEY_DYNAMIC
    if bucket == -1:
        return BucketMode.BUCKET_UNAWARE
    if bucket == POSTPONE_BUCKET and keyed:
        return BucketMode.POSTPONE
    raise InvalidOptionError(
        f"option bucket={bucket}: use a positive number, -1, or -2 on a table with a primary key"
    )
