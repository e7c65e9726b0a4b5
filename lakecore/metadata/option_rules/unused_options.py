"""This module lists the options of Paimon that this release does not need: with any value, what it reads,
writes and maintains is the same. It is pure data.

Such an option directs another engine: how Flink spreads its tasks, what Java keeps in memory, how fast an
index of Java is built. It may be stored in a table, because a table belongs to all its engines. Given for one
run of lakecore it would have no effect, and is refused there (`lakecore.metadata.option_rules.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["UNUSED", "UNUSED_PREFIXES"]

_FLINK_TASKS = "it directs the tasks of Flink; Spark has settings of its own"
_FLINK_WATERMARKS = (
    "a commit has the watermark of all its rows (write.watermark), and a stream that of whole snapshots"
)
_MEMORY = "it directs buffers of Java; here write-buffer-size and write-buffer-spillable bound the memory"
_THREADS = "it directs threads and batches of Java; lakecore chooses them by the machine"
_SORT = "rows are sorted in columns and merged in windows here, whatever Java uses"
_LOOKUP = "lookups have files and an index of their own here"
_INDEX_BUILD = "global indexes are built by other engines; a commit that would leave one stale is refused"
_INDEX_READ = "reads do not use global indexes, and have the same rows without them"
_WAITS = "each commit is followed by a compaction, for which it waits, unless the table is write-only"
_METASTORE = "a catalog of files has no metastore to inform"
_MATERIALIZED = "the engine that refreshes the materialized table keeps its state in it"
_FORMAT_TABLES = "only format tables have it, and their reads obey it (type=format-table)"
_TEXT_FILES = "only format tables have files of this format, and their reads obey it"
_CHAIN = "it is part of chain tables, whose reads and writes are refused (chain-table.enabled)"
_EVOLUTION = "it directs how other engines plan or speed up reads and updates; rows are the same without it"

_GROUPS: Mapping[str, str] = {
    _FLINK_TASKS: """
        sink.parallelism unaware-bucket.compaction.parallelism unaware-bucket.no-shuffle
        compaction.bucket-distribution-strategy scan.split-enumerator.batch-size
        scan.split-enumerator.mode scan.max-snapshot.count scan.max-splits-per-task scan.remove-normalize
        log.scan.remove-normalize read.shuffle-bucket-with-partition
        streaming-read.shuffle-bucket-with-partition scan.bounded scan.dedicated-split-generation
        source.checkpoint-align.timeout source.operator-uid.suffix
        sink.operator-uid.suffix sink.use-managed-memory-allocator sink.managed.writer-buffer-memory
        sink.cross-partition.managed-memory sink.writer-cpu sink.writer-memory sink.committer-cpu
        sink.committer-memory sink.committer-operator-chaining
        sink.clustering.sort-in-cluster sink.clustering.sample-factor precommit-compact
        changelog.precommit-compact changelog.precommit-compact.thread-num
        changelog.precommit-compact.buffer-size sink.coordinator-commit.enabled
        sink.writer-coordinator.enabled sink.key-only-deletes.enabled sink.writer-coordinator.cache-memory
        sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-soft-values
        sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests
        filesystem.job-level-settings.enabled sink.writer-refresh-detectors partition.sink-strategy""",
    _FLINK_WATERMARKS: """
        scan.watermark.emit.strategy""",
    _MEMORY: """
        write-buffer-for-append write-max-writers-to-spill page-size write.batch-memory""",
    _THREADS: """
        read.batch-size write.batch-size orc.write.batch-size scan.manifest.parallelism
        file-reader-async-threshold file-operation.thread-num delete-file.thread-num async-file-write
        blob.copy-buffer-size compaction.file-num-limit""",
    _SORT: """
        sort-engine sort-spill-threshold sort-spill-buffer-size spill-compression
        local-sort.max-num-file-handles sort-compaction.range-strategy""",
    _WAITS: """
        commit.force-compact""",
    _LOOKUP: """
        lookup.hash-load-factor lookup.cache-rows lookup.cache.high-priority-pool-ratio
        lookup.merge-buffer-size
        lookup.merge-records-threshold local-kv-db.block-size lookup.async lookup.async-thread-number
        lookup.bootstrap-parallelism""",
    _INDEX_BUILD: """
        global-index.row-count-per-shard global-index.build.max-shard global-index.build.max-parallelism
        btree-index.compression btree-index.compression-level btree-index.block-size
        btree-index.records-per-range btree-index.build.max-parallelism bitmap-index.dictionary-block-size
        bitmap-index.compression bitmap-index.compression-level sorted-index.records-per-range
        sorted-index.build.max-parallelism""",
    _INDEX_READ: """
        global-index.enabled global-index.search-mode scalar-index.search-mode vector-index.search-mode
        full-text-index.search-mode global-index.thread-num btree-index.cache-size
        btree-index.high-priority-pool-ratio btree-index.fallback-scan-max-size
        bitmap-index.fallback-scan-max-size vector-search.distribute.enabled
        vector-search.lateral-join.batch-size""",
    _METASTORE: """
        metastore.tag-to-partition.preview partition.idle-time-to-report-statistic""",
    _MATERIALIZED: """
        materialized-table.definition-query materialized-table.interval-freshness
        materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
        materialized-table.refresh-mode materialized-table.refresh-status
        materialized-table.refresh-handler-description materialized-table.refresh-handler-bytes""",
    _FORMAT_TABLES: """
        format-table.implementation format-table.partition-path-only-value format-table.file.compression
        format-table.commit-hive-sync-url format-table.scan.list-parallelism""",
    _TEXT_FILES: """
        csv.field-delimiter field-delimiter seq csv.line-delimiter lineSep csv.quote-character quote
        csv.escape-character escape csv.include-header header csv.null-literal nullvalue csv.mode mode
        json.ignore-parse-errors json.map-null-key-mode json.map-null-key-literal json.line-delimiter
        text.line-delimiter""",
    _CHAIN: """
        scan.fallback-snapshot-branch scan.fallback-delta-branch chain-table.streaming.merge-snapshot
        chain-table.split.key-range-enabled chain-table.chain-partition-keys""",
    _EVOLUTION: """
        data-evolution.reassign.skip-contiguous-row-count data-evolution.row-id-conflict-rewrite.max-size
        data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
        data-evolution.row-sidecar.max-selection-ratio data-evolution.merge-into.file-pruning
        data-evolution.merge-into.source-persist""",
    "Spark has no savepoints; lakecore.spark.tag_checkpoint tags a checkpoint of a query": """
        sink.savepoint.auto-tag""",
    "names of Avro records are for other readers; those of Paimon go by fields": "avro.row-name-mapping",
    "data files of Avro are compressed as file.compression says": "avro.codec",
    "it is part of scan.fallback-branch, with which a read here fails at once": (
        "scan.fallback-branch.read-fail-fast"
    ),
    "writers of Paimon take the number from the files if a snapshot does not have it": (
        "write.sequence-number-init-mode"
    ),
    "Java sets it for itself, between its system tables and its readers": "key-value.sequence_number.enabled",
    "deletes of tables with a primary key are written as -D rows, with or without it": (
        "delete.force-produce-changelog"
    ),
    "row ids follow the order of the commit; rows and ids that exist do not change": (
        "row-tracking.partition-group-on-commit"
    ),
    "it is part of partition.mark-done-action=custom, which is refused": (
        "partition.mark-done-action.custom.class"
    ),
    "it is part of callbacks, which are not invoked (see commit.callbacks and tag.callbacks)": (
        "commit.callback.#.param tag.callback.#.param"
    ),
    "it is part of the metadata of Iceberg, which is not written (see metadata.iceberg.storage)": """
        metadata.iceberg.storage-location metadata.iceberg.format-version
        metadata.iceberg.compaction.min.file-num metadata.iceberg.compaction.max.file-num
        metadata.iceberg.delete-after-commit.enabled metadata.iceberg.previous-versions-max
        metadata.iceberg.uri metadata.iceberg.hive-conf-dir metadata.iceberg.hadoop-conf-dir
        metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
        metadata.iceberg.hive-client-class metadata.iceberg.database metadata.iceberg.table
        metadata.iceberg.glue.skip-archive metadata.iceberg.hive-skip-update-stats""",
    "it is part of manifest-sort.enabled": "manifest-sort.partition-field manifest-sort.max-rewrite-size",
    "it is part of visibility-callback.enabled": (
        "visibility-callback.timeout visibility-callback.check-interval"
    ),
    "it is part of variant.shredding.inferenceMode=adaptive": (
        "variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio"
    ),
    "it is part of partition.mark-done-action.mode and partition.idle-time-to-done": (
        "partition.time-interval partition.mark-done.recover-from-state"
    ),
    "it directs Spark writers of Paimon; compact and rescale decide the buckets of postponed rows": (
        "postpone.batch-write-fixed-bucket.max-parallelism"
    ),
}

UNUSED: Mapping[str, str] = {key: why for why, keys in _GROUPS.items() for key in keys.split()}
"""The reason by key; earlier keys of an option are keys, too."""
UNUSED_PREFIXES: Mapping[str, str] = {"rocksdb.": "no RocksDB is used here"}
"""The reason by the begin of the key, for options whose classes need a library that Paimon's jar lacks."""
