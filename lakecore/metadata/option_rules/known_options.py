"""This module lists the options of tables that Paimon 1.4.2 and 2.0.0 declare, with their earlier keys, and
those that lakecore adds. It is pure data; a test compares it with Paimon's jars.

Any other option of a run would have no effect. Most often it is misspelled, so that it is refused.
"""

from __future__ import annotations

from difflib import get_close_matches

__all__ = ["is_known_option", "similar_options"]

_OWN = frozenset(
    {"lakecore.commit.settle-time", "lookup.refresh.interval", "read.watermark", "write.watermark"}
)
_PREFIXES = ("fields.", "file-index.", "commit.callback.", "tag.callback.", "rocksdb.")
"""The rest of such a key is the name of a column, an index, a class or an option of RocksDB."""
_KEYS = """
    add-column-before-partition aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled
    async-file-write auto-create avro.codec avro.row-name-mapping batch-scan-mode bitmap-index.compression
    bitmap-index.compression-level bitmap-index.dictionary-block-size bitmap-index.fallback-scan-max-size
    blob-as-descriptor blob-compaction.enabled blob-descriptor-field blob-descriptor.source-table
    blob-external-storage-field blob-external-storage-path blob-field blob-view-field
    blob-view.resolve.enabled blob-write-null-on-fetch-failure blob-write-null-on-missing-file
    blob.copy-buffer-size blob.split-by-file-size blob.stored-descriptor-fields blob.target-file-size branch
    btree-index.block-size btree-index.build.max-parallelism btree-index.cache-size btree-index.compression
    btree-index.compression-level btree-index.fallback-scan-max-size btree-index.high-priority-pool-ratio
    btree-index.records-per-range bucket bucket-append-ordered bucket-function.type bucket-key
    cache-page-size chain-table.chain-partition-keys chain-table.enabled chain-table.split.key-range-enabled
    chain-table.streaming.merge-snapshot changelog-file.compression changelog-file.format
    changelog-file.prefix changelog-file.stats-mode changelog-producer
    changelog-producer.compaction-interval changelog-producer.lookup-wait changelog-producer.row-deduplicate
    changelog-producer.row-deduplicate-ignore-fields changelog.num-retained.max changelog.num-retained.min
    changelog.precommit-compact changelog.precommit-compact.buffer-size
    changelog.precommit-compact.thread-num changelog.time-retained clustering.columns
    clustering.history-partition.idle-to-full-sort clustering.history-partition.limit clustering.incremental
    clustering.incremental.mode clustering.incremental.optimize-write clustering.strategy
    commit.callback.#.param commit.callbacks commit.custom-listeners commit.discard-duplicate-files
    commit.force-compact commit.force-create-snapshot commit.max-retries commit.max-retry-wait
    commit.min-retry-wait commit.strict-mode.last-safe-snapshot commit.timeout commit.user-prefix
    compaction.bucket-distribution-strategy compaction.delete-ratio-threshold compaction.file-num-limit
    compaction.force-rewrite-all-files compaction.force-up-level-0 compaction.incremental-size-threshold
    compaction.max-size-amplification-percent compaction.min.file-num compaction.offpeak-ratio
    compaction.offpeak.end.hour compaction.offpeak.start.hour compaction.optimization-interval
    compaction.size-ratio compaction.skip-expired-partitions compaction.small-file-ratio
    compaction.total-size-threshold consumer-id consumer.changelog-only consumer.expiration-time
    consumer.ignore-progress consumer.mode continuous.discovery-interval
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl csv.escape-character
    csv.field-delimiter csv.include-header csv.line-delimiter csv.mode csv.null-literal csv.quote-character
    data-evolution.compaction.rewrite-row-ids data-evolution.enabled data-evolution.merge-into.file-pruning
    data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count
    data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled
    data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio
    data-file.external-paths data-file.external-paths.specific-fs data-file.external-paths.strategy
    data-file.external-paths.weights data-file.path-directory data-file.prefix data-file.thin-mode
    deduplicate.ignore-delete delete-file.thread-num delete.force-produce-changelog
    deletion-vector.index-file.target-size deletion-vectors.bitmap64 deletion-vectors.enabled
    deletion-vectors.merge-on-read deletion-vectors.modifiable disable-explicit-type-casting
    dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets dynamic-bucket.max-buckets
    dynamic-bucket.target-row-num dynamic-partition-overwrite end-input.check-partition-expire
    end-input.watermark escape field-delimiter fields.default-aggregate-function
    file-index.in-manifest-threshold file-index.read.enabled file-operation.thread-num
    file-reader-async-threshold file.block-size file.compression file.compression.per.level
    file.compression.zstd-level file.format file.format.per.level file.suffix.include.compression
    filesystem.job-level-settings.enabled first-row.ignore-delete force-lookup
    format-table.commit-hive-sync-url format-table.file.compression format-table.implementation
    format-table.partition-path-only-value format-table.scan.list-parallelism full-compaction.delta-commits
    full-text-index.search-mode global-index.build.max-parallelism global-index.build.max-shard
    global-index.column-update-action global-index.enabled global-index.external-path
    global-index.row-count-per-shard global-index.search-mode global-index.thread-num header ignore-delete
    ignore-update-before incremental-between incremental-between-scan-mode
    incremental-between-tag-to-snapshot incremental-between-timestamp incremental-to-auto-tag
    index-file-in-data-file-dir json.ignore-parse-errors json.line-delimiter json.map-null-key-literal
    json.map-null-key-mode key-value.sequence_number.enabled lineSep local-kv-db.block-size
    local-merge-buffer-size local-sort.max-num-file-handles log.scan log.scan.remove-normalize
    log.scan.timestamp-millis lookup-compact lookup-compact.max-interval lookup-wait lookup.async
    lookup.async-thread-number lookup.blob-as-descriptor lookup.bootstrap-parallelism lookup.cache
    lookup.cache-file-retention lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.cache-rows
    lookup.cache-spill-compression lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
    lookup.cache.high-priority-pool-ratio lookup.continuous.discovery-interval lookup.dynamic-partition
    lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async lookup.hash-load-factor
    lookup.merge-buffer-size lookup.merge-records-threshold lookup.refresh.async
    lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
    lookup.refresh.time-periods-blacklist lookup.remote-file.enabled lookup.remote-file.level-threshold
    manifest-sort.enabled manifest-sort.max-rewrite-size manifest-sort.partition-field manifest.compression
    manifest.delete-file-drop-stats manifest.format manifest.full-compaction-threshold-size
    manifest.merge-min-count manifest.target-file-size materialized-table.definition-query
    materialized-table.interval-freshness materialized-table.interval-freshness.time-unit
    materialized-table.logical-refresh-mode materialized-table.refresh-handler-bytes
    materialized-table.refresh-handler-description materialized-table.refresh-mode
    materialized-table.refresh-status merge-engine metadata.iceberg.compaction.max.file-num
    metadata.iceberg.compaction.min.file-num metadata.iceberg.database
    metadata.iceberg.delete-after-commit.enabled metadata.iceberg.format-version
    metadata.iceberg.glue.skip-archive metadata.iceberg.hadoop-conf-dir metadata.iceberg.hive-client-class
    metadata.iceberg.hive-conf-dir metadata.iceberg.hive-skip-update-stats
    metadata.iceberg.manifest-compression metadata.iceberg.manifest-legacy-version
    metadata.iceberg.previous-versions-max metadata.iceberg.storage metadata.iceberg.storage-location
    metadata.iceberg.table metadata.iceberg.uri metadata.stats-dense-store
    metadata.stats-keep-first-n-columns metadata.stats-mode metadata.stats-mode.per.level
    metastore.partitioned-table metastore.tag-to-partition metastore.tag-to-partition.preview mode nullvalue
    num-levels num-sorted-run.compaction-trigger num-sorted-run.stop-trigger orc.column.encoding.direct
    orc.dictionary.key.threshold orc.timestamp-ltz.legacy.type orc.write.batch-size overwrite-upgrade
    page-size parquet.enable.dictionary parquet.variant.shreddingSchema partial-update.ignore-delete
    partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group partition
    partition.default-name partition.end-input-to-done partition.expiration-batch-size
    partition.expiration-check-interval partition.expiration-max-num partition.expiration-strategy
    partition.expiration-time partition.idle-time-to-done partition.idle-time-to-report-statistic
    partition.legacy-name partition.mark-done-action partition.mark-done-action.custom.class
    partition.mark-done-action.http.params partition.mark-done-action.http.url
    partition.mark-done-action.mode partition.mark-done.recover-from-state partition.sink-strategy
    partition.time-interval partition.timestamp-format.strict partition.timestamp-formatter
    partition.timestamp-pattern path pk-bitmap.index.columns pk-btree.index.columns pk-clustering-override
    pk-full-text.index.columns pk-vector.index.columns postpone.batch-write-fixed-bucket
    postpone.batch-write-fixed-bucket.max-parallelism postpone.default-bucket-num postpone.merge-on-read
    postpone.target-row-num-per-bucket postpone.target-size-per-bucket precommit-compact primary-key
    query-auth.enabled quote read.batch-size read.shuffle-bucket-with-partition record-level.expire-time
    record-level.time-field row-tracking.enabled row-tracking.partition-group-on-commit rowkind.field
    scalar-index.search-mode scan.bounded scan.bounded.watermark scan.bucket scan.creation-time-millis
    scan.dedicated-split-generation scan.fallback-branch scan.fallback-branch.read-fail-fast
    scan.fallback-delta-branch scan.fallback-snapshot-branch scan.file-creation-time-millis
    scan.ignore-corrupt-files scan.ignore-lost-files scan.infer-parallelism scan.infer-parallelism.max
    scan.manifest.parallelism scan.max-snapshot.count scan.max-splits-per-task scan.mode scan.parallelism
    scan.partitions scan.plan-auto-tag-for-read.time-retained scan.plan-sort-partition scan.primary-branch
    scan.remove-normalize scan.snapshot-id scan.split-enumerator.batch-size scan.split-enumerator.mode
    scan.tag-name scan.timestamp scan.timestamp-millis scan.version scan.watermark
    scan.watermark.alignment.group scan.watermark.alignment.max-drift
    scan.watermark.alignment.update-interval scan.watermark.emit.strategy scan.watermark.idle-timeout seq
    sequence.field sequence.field.sort-order sequence.snapshot-ordering sink.clustering.by-columns
    sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.clustering.strategy
    sink.committer-cpu sink.committer-memory sink.committer-operator-chaining
    sink.coordinator-commit.enabled sink.cross-partition.managed-memory sink.key-only-deletes.enabled
    sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.process-time-zone
    sink.savepoint.auto-tag sink.use-managed-memory-allocator sink.watermark-time-zone
    sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-memory
    sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled
    sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests sink.writer-cpu
    sink.writer-memory sink.writer-refresh-detectors snapshot.clean-empty-directories
    snapshot.expire.clean-empty-directories snapshot.expire.execution-mode snapshot.expire.limit
    snapshot.ignore-empty-commit snapshot.num-retained.max snapshot.num-retained.min snapshot.time-retained
    snapshot.watermark-idle-timeout sort-compaction.local-sample.magnification
    sort-compaction.range-strategy sort-engine sort-spill-buffer-size sort-spill-threshold
    sorted-index.build.max-parallelism sorted-index.records-per-range source.checkpoint-align.enabled
    source.checkpoint-align.timeout source.operator-uid.suffix source.split.open-file-cost
    source.split.target-size spill-compression spill-compression.zstd-level stream-scan-mode
    streaming-read-append-overwrite streaming-read-overwrite streaming-read.shuffle-bucket-with-partition
    streaming.read.snapshot.delay table-read.sequence-number.enabled tag.automatic-completion
    tag.automatic-creation tag.batch.customized-name tag.callback.#.param tag.callbacks
    tag.create-success-file tag.creation-delay tag.creation-period tag.creation-period-duration
    tag.default-time-retained tag.num-retained-max tag.period-formatter tag.time-expire-enabled
    target-file-row-num target-file-size text.line-delimiter type unaware-bucket.compaction.parallelism
    unaware-bucket.no-shuffle upsert-key variant.inferShreddingSchema
    variant.shredding.adaptive.maxInferBufferRow variant.shredding.adaptive.retentionRatio
    variant.shredding.inferenceMode variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
    variant.shredding.maxSchemaWidth variant.shredding.minFieldCardinalityRatio variant.shreddingSchema
    vector-field vector-index.search-mode vector-search.distribute.enabled
    vector-search.lateral-join.batch-size vector.file.format vector.target-file-size
    visibility-callback.check-interval visibility-callback.enabled visibility-callback.timeout
    write-buffer-for-append write-buffer-size write-buffer-spill.max-disk-size write-buffer-spillable
    write-max-writers-to-spill write-only write.batch-memory write.batch-size write.compaction-skip
    write.sequence-number-init-mode zorder.var-length-contribution
"""
_PAIMON = frozenset(_KEYS.split())


def is_known_option(key: str) -> bool:
    """Return whether Paimon or lakecore has an option of a table with this key."""
    return key in _PAIMON or key in _OWN or key.startswith(_PREFIXES)


def similar_options(key: str) -> tuple[str, ...]:
    """Return at most three keys that are written much like `key`, the most similar one first."""
    return tuple(get_close_matches(key, sorted(_PAIMON | _OWN), 3, 0.75))
