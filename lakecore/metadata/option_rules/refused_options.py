"""This module lists the options of Paimon that this release refuses. It is pure data.

`REFUSED` asks writers, readers or jobs for something that lakecore does not do, and rows and changes are
right without it. lakecore does not set such an option, and accepts it for no run. Where another engine has
set it, reads and maintenance go on, and a write warns.

`WARNED` is what lakecore sets as others do, because an engine beside it may obey it; a write warns.

`REFUSED_BY` are options without which rows or changes would be wrong or somebody would see what they must
not: the operation that is named refuses the table (`lakecore.scan.support`, `lakecore.catalog`), whoever has
set them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass

__all__ = ["REFUSED", "REFUSED_BY", "WARNED", "OperationRefusal", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """It says why lakecore does not set an option."""

    why: str
    same: tuple[str, ...] = ("false",)
    """These values, in lower case, ask for nothing that lakecore would not do."""


@dataclass(frozen=True, slots=True)
class OperationRefusal:
    """It says which operation refuses a table with an option."""

    operation: str
    """This is create, read, write, compact, stream or commit."""
    example: str
    """This is a value that is refused."""
    why: str


_NONE: tuple[str, ...] = ()
_MARK_DONE = "writers mark no partitions as done; run mark-partition-done"
_NO_LOG = "Paimon 1.0 removed the log systems, and lakecore has none"
_BLOB_COPY = "blobs are written from the bytes that are given; missing ones are errors"

REFUSED: Mapping[str, Refusal] = {
    "manifest.compression": Refusal("manifests are compressed with zstd", ("zstd",)),
    "manifest-sort.enabled": Refusal("manifests are merged in the order of their commits"),
    "manifest.delete-file-drop-stats": Refusal("manifests keep the statistics of files that are removed"),
    "snapshot.clean-empty-directories": Refusal("expiry leaves empty directories"),
    "snapshot.expire.clean-empty-directories": Refusal("expiry leaves empty directories"),
    "target-file-row-num": Refusal("a data file is complete by its size", ("9223372036854775807",)),
    "compaction.skip-expired-partitions": Refusal("compactions take every partition that needs one"),
    "clustering.incremental.optimize-write": Refusal("rows are written as they come; run compact"),
    "write-buffer-spill.max-disk-size": Refusal(
        "the disk that spilled rows use is not bounded", ("9223372036854775807 bytes",)
    ),
    "parquet.enable.dictionary": Refusal("dictionaries are chosen by the values of a column", _NONE),
    "orc.column.encoding.direct": Refusal("encodings are chosen by the values of a column", _NONE),
    "orc.dictionary.key.threshold": Refusal("encodings are chosen by the values of a column", ("0.8",)),
    "variant.shredding.inferenceMode": Refusal("each file is shredded by its own rows", ("per-file",)),
    "postpone.target-size-per-bucket": Refusal(
        "buckets of postponed rows are counted by postpone.target-row-num-per-bucket", ("1 gb",)
    ),
    "partition.end-input-to-done": Refusal(_MARK_DONE),
    "partition.mark-done-action.mode": Refusal(_MARK_DONE, _NONE),
    "partition.idle-time-to-done": Refusal(_MARK_DONE, _NONE),
    "end-input.watermark": Refusal("the watermark of a commit is Commit.watermark", _NONE),
    "commit.custom-listeners": Refusal("listeners of Flink are not invoked", ("",)),
    "commit.discard-duplicate-files": Refusal("a commit with a file that is committed already is an error"),
    "visibility-callback.enabled": Refusal("a commit does not wait for a compaction or an index"),
    "changelog-producer.compaction-interval": Refusal("no full compaction starts by time", ("0 s", "pt0s")),
    "scan.ignore-corrupt-files": Refusal("a damaged file is an error; run repair"),
    "scan.ignore-lost-files": Refusal("a missing file is an error; run remove-unexisting-files"),
    "scan.plan-sort-partition": Refusal("splits come in the order of the manifests"),
    "scan.plan-auto-tag-for-read.time-retained": Refusal(
        "a read creates no tag; create one, or a consumer, before a long read", _NONE
    ),
    "batch-scan-mode": Refusal("it is for the compactions of Java; read the table without it", ("none",)),
    "global-index.column-update-action": Refusal(
        "an update of columns under a global index is an error", ("throw_error",)
    ),
    "lookup.blob-as-descriptor": Refusal("lookup tables have no blobs"),
    "blob-descriptor.source-table": Refusal(_BLOB_COPY, _NONE),
    "blob-write-null-on-missing-file": Refusal(_BLOB_COPY),
    "blob-write-null-on-fetch-failure": Refusal(_BLOB_COPY),
    "blob-external-storage-path": Refusal("blobs lie beside the data files", ("",)),
    "vector-field": Refusal("declare the column as VECTOR", ("",)),
    "blob-field": Refusal("declare the column as BLOB", ("",)),
    "branch": Refusal("name the branch with the table: db.t$branch_b", ("main",)),
    "log.system": Refusal(_NO_LOG, ("none",)),
    "log.consistency": Refusal(_NO_LOG, _NONE),
    "log.changelog-mode": Refusal(_NO_LOG, _NONE),
    "streaming-read-mode": Refusal(_NO_LOG, ("file",)),
    "scan.startup.mode": Refusal("the option is scan.mode", _NONE),
    "linage-meta": Refusal("entry points of the group lakecore.lineage are told of reads and writes", _NONE),
}
"""The refusal by key; earlier keys of an option are keys, too."""

REFUSED_BY: Mapping[str, OperationRefusal] = {
    "path": OperationRefusal(
        "create", "file:///elsewhere", "only catalogs of Hive and REST have external tables"
    ),
    "auto-create": OperationRefusal("create", "true", "tables are created by name"),
    "scan.fallback-branch": OperationRefusal("create", "b", "a new table has no branches; alter sets it"),
    "scan.primary-branch": OperationRefusal("create", "b", "a new table has no branches; alter sets it"),
    "chain-table.enabled": OperationRefusal("read", "true", "partitions continue those of other branches"),
    "scan.bucket": OperationRefusal("read", "0", "reads have all buckets"),
    "postpone.merge-on-read": OperationRefusal("read", "true", "rows without a bucket would be left out"),
    "query-auth.enabled": OperationRefusal(
        "read", "true", "only the catalog that grants rights knows which rows and columns a reader may see"
    ),
    "stream-scan-mode": OperationRefusal("stream", "file-monitor", "a stream has changes, not files"),
    "blob-external-storage-field": OperationRefusal("write", "b", "blobs go to another storage"),
    "partition.timestamp-format.strict": OperationRefusal(
        "write", "true", "the times in names of partitions are not checked"
    ),
    "upsert-key": OperationRefusal("write", "v", "rows would be added where the option wants them replaced"),
    "orc.timestamp-ltz.legacy.type": OperationRefusal(
        "write", "false", "files of ORC get the type that Paimon wrote before"
    ),
    "pk-vector.index.columns": OperationRefusal("write", "v", "the index would miss new rows"),
    "pk-btree.index.columns": OperationRefusal("write", "v", "the index would miss new rows"),
    "pk-bitmap.index.columns": OperationRefusal("write", "v", "the index would miss new rows"),
    "pk-full-text.index.columns": OperationRefusal("write", "v", "the index would miss new rows"),
    "commit.strict-mode.last-safe-snapshot": OperationRefusal(
        "commit", "1", "commits do not look who else has committed since"
    ),
}
"""It says by key which operation refuses a table with the option. The code of the operation decides."""

WARNED: Mapping[str, str] = {
    "commit.callbacks": "it names Java classes, which lakecore does not invoke",
    "tag.callbacks": "it names Java classes, which lakecore does not invoke",
    "metadata.iceberg.storage": "lakecore writes no metadata of Iceberg",
}
"""The reason by key; earlier keys of an option are keys, too."""
