"""This module has the rules for options that exclude each other, or certain keys and columns of the table.
It is pure.
"""

from __future__ import annotations

from collections.abc import Callable

from lakecore.errors import InvalidOptionError
from lakecore.metadata.options import BY_SNAPSHOT, ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_list
from lakecore.types.datatypes import AtomicType, TypeRoot
from lakecore.types.sql import type_text

__all__ = ["check_option_rules"]

_TIMES = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_DEFAULT_AGGREGATE = "default-aggregate-function"
_AGGREGATES = frozenset({
    "bool_and", "bool_or", "collect", "first_non_null_value", "first_not_null_value", "first_value",
    "hll_sketch", "last_non_null_value", "last_value", "listagg", "max", "merge_map",
    "merge_map_with_keytime", "min", "nested_partial_update", "nested_update", "primary-key", "product",
    "rbm32", "rbm64", "sum", "theta_sketch",
})  # fmt: skip
_ENDLESS = 2**31 - 1


def check_option_rules(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOptionError naming the option."""
    for check in _CHECKS:
        check(schema, options)


def _is_on(schema: TableSchema, key: str) -> bool:
    return Option(key, parse_bool, False, "").read(schema.options)


def _need(condition: bool, key: str, problem: str) -> None:
    if not condition:
        raise InvalidOptionError(f"option {key}: {problem}")


def _needs_primary_key(schema: TableSchema, options: TableOptions) -> None:
    if schema.primary_keys:
        _need(not schema.options.get("upsert-key", "").strip(), "upsert-key", "the table has a primary key")
        return
    producer = options.changelog_producer
    _need(producer is ChangelogProducer.NONE, "changelog-producer", "only tables with a primary key have one")
    _need(not options.sequence_fields, "sequence.field", "only tables with a primary key have one")
    for key in ("streaming-read-overwrite", "table-read.sequence-number.enabled"):
        _need(not _is_on(schema, key), key, "only tables with a primary key have it")
    delta = "full-compaction.delta-commits"
    _need(options.bucket > 0 or delta not in schema.options, delta, "it needs buckets; unset it")


def _named_columns(schema: TableSchema, options: TableOptions) -> None:
    names = set(schema.row_type.names)
    for key in schema.options:
        if key.startswith("fields."):
            for name in key.split(".")[1].split(","):
                is_known = name in names or name == _DEFAULT_AGGREGATE
                _need(is_known, key, f"{name!r} is not a column")
    if options.rowkind_field is not None:
        _need(options.rowkind_field in names, "rowkind.field", f"{options.rowkind_field!r} is not a column")
    _time_field(schema)


def _time_field(schema: TableSchema) -> None:
    key = "record-level.time-field"
    name = schema.options.get(key)
    if name is None:
        return
    _need(name in schema.row_type.names, key, f"{name!r} is not a column")
    data_type = schema.row_type.field(name).type
    _need(
        isinstance(data_type, AtomicType) and data_type.root in _TIMES,
        key,
        f"{name!r} is {type_text(data_type)}; it must be INT, BIGINT or TIMESTAMP",
    )


def _sequence_fields(schema: TableSchema, options: TableOptions) -> None:
    key = "sequence.field"
    fields = options.sequence_fields
    for name in fields:
        _need(name in schema.row_type.names, key, f"{name!r} is not a column")
        aggregate = f"fields.{name}.aggregate-function"
        _need(aggregate not in schema.options, aggregate, "a sequence field has no aggregate function")
        _need(fields.count(name) == 1, key, f"{name!r} is named twice")
    if fields:
        _need(
            options.merge_engine is not MergeEngine.FIRST_ROW,
            key,
            "it cannot be used with merge-engine=first-row",
        )
        across = schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys)
        _need(
            not across,
            key,
            "it cannot be used where the primary key lacks partition columns: rows move between partitions",
        )


def _snapshot_order(schema: TableSchema, options: TableOptions) -> None:
    key = BY_SNAPSHOT.key
    if not BY_SNAPSHOT.read(schema.options):
        return
    _need(bool(schema.primary_keys), key, "only tables with a primary key have it")
    _need(not options.sequence_fields, key, "it cannot be used with sequence.field")
    _need(options.write_only, key, "it needs write-only=true: the merged files must belong to a snapshot")


def _changelogs(schema: TableSchema, options: TableOptions) -> None:
    producer = options.changelog_producer
    late = producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    overwrite = "streaming-read-overwrite"
    _need(
        not (late and _is_on(schema, overwrite)),
        overwrite,
        f"it cannot be used with changelog-producer={producer.value}",
    )
    if options.merge_engine is MergeEngine.FIRST_ROW:
        allowed = (ChangelogProducer.NONE, ChangelogProducer.LOOKUP)
        _need(producer in allowed, "changelog-producer", "merge-engine=first-row accepts only none or lookup")


def _retention(schema: TableSchema, _: TableOptions) -> None:
    snapshot_min = Option("snapshot.num-retained.min", int, 10, "").read(schema.options)
    snapshot_max = Option("snapshot.num-retained.max", int, _ENDLESS, "").read(schema.options)
    changelog_min = Option("changelog.num-retained.min", int, snapshot_min, "").read(schema.options)
    changelog_max = Option("changelog.num-retained.max", int, snapshot_max, "").read(schema.options)
    for what, low, high in (
        ("snapshot", snapshot_min, snapshot_max),
        ("changelog", changelog_min, changelog_max),
    ):
        key = f"{what}.num-retained.min"
        _need(low > 0, key, "it must be at least 1")
        _need(low <= high, key, f"{low} is more than {what}.num-retained.max={high}")
    expiry = "partition.expiration-time"
    _need(expiry not in schema.options or bool(schema.partition_keys), expiry, "the table has no partitions")


def _deletion_vectors(schema: TableSchema, options: TableOptions) -> None:
    if not options.deletion_vectors:
        return
    key = "deletion-vectors.enabled"
    producer = options.changelog_producer
    _need(
        producer is not ChangelogProducer.FULL_COMPACTION,
        key,
        "it cannot be used with changelog-producer=full-compaction",
    )
    if not _is_on(schema, "pk-clustering-override"):
        first_row = options.merge_engine is MergeEngine.FIRST_ROW
        _need(not first_row, key, "merge-engine=first-row deletes no rows and does not need it")


def _aggregates(schema: TableSchema, options: TableOptions) -> None:
    if not schema.primary_keys or options.merge_engine in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        return
    keys = [f"fields.{name}.aggregate-function" for name in schema.row_type.names]
    for key in (f"fields.{_DEFAULT_AGGREGATE}", *keys):
        value = schema.options.get(key)
        _need(value is None or value in _AGGREGATES, key, f"there is no function {value!r}")


def _row_tracking(schema: TableSchema, options: TableOptions) -> None:
    if options.row_tracking:
        key = "row-tracking.enabled"
        _need(options.bucket == -1, key, "it can be used only with bucket=-1")
        _need(not schema.primary_keys, key, "it cannot be used in a table with a primary key")
    if options.data_evolution:
        key = "data-evolution.enabled"
        _need(options.row_tracking, key, "it needs row-tracking.enabled=true")
        _need(
            not _is_on(schema, "clustering.incremental"), key, "it cannot be used with clustering.incremental"
        )


def _clustering(schema: TableSchema, options: TableOptions) -> None:
    if not _is_on(schema, "clustering.incremental"):
        return
    key = "clustering.incremental"
    _need(not schema.primary_keys, key, "it cannot be used in a table with a primary key")
    if options.bucket != -1:
        ordered = Option("bucket-append-ordered", parse_bool, True, "").read(schema.options)
        _need(not ordered, key, "with buckets it needs bucket-append-ordered=false")
        _need(
            not options.deletion_vectors, key, "with buckets it cannot be used with deletion-vectors.enabled"
        )


def _clustering_override(schema: TableSchema, options: TableOptions) -> None:
    key = "pk-clustering-override"
    if not _is_on(schema, key):
        return
    _need(bool(parse_list(schema.options.get("clustering.columns", ""))), key, "it needs clustering.columns")
    vectors = options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW
    _need(vectors, key, "it needs deletion-vectors.enabled=true")
    _need(options.record_expire_ms is None, key, "it cannot be used with record-level.expire-time")
    engines = (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)
    _need(
        options.merge_engine in engines, key, "it can be used only with merge-engine deduplicate or first-row"
    )
    _need(not options.sequence_fields, key, "it cannot be used with sequence.field")
    producers = (ChangelogProducer.NONE, ChangelogProducer.INPUT)
    _need(
        options.changelog_producer in producers,
        key,
        "it can be used only with changelog-producer none or input",
    )


def _chain(schema: TableSchema, options: TableOptions) -> None:
    key = "chain-table.enabled"
    if not _is_on(schema, key):
        return
    _need(bool(schema.primary_keys), key, "needs a primary key")
    _need(bool(schema.partition_keys), key, "needs partitions")
    _need(options.bucket > 0, key, "needs a fixed number of buckets")
    producers = (ChangelogProducer.NONE, ChangelogProducer.INPUT)
    _need(
        options.changelog_producer in producers,
        key,
        "it can be used only with changelog-producer none or input",
    )
    _need(not options.deletion_vectors, key, "it cannot be used with deletion-vectors.enabled")
    for needed in ("partition.timestamp-pattern", "partition.timestamp-formatter"):
        _need(needed in schema.options, key, f"needs {needed}")
    tail = parse_list(schema.options.get("chain-table.chain-partition-keys", ""))
    keys = schema.partition_keys
    _need(
        keys[len(keys) - len(tail) :] == tail,
        key,
        "chain-table.chain-partition-keys must end the partition keys",
    )


_CHECKS: tuple[Callable[[TableSchema, TableOptions], None], ...] = (
    _needs_primary_key,
    _named_columns,
    _sequence_fields,
    _snapshot_order,
    _changelogs,
    _retention,
    _deletion_vectors,
    _aggregates,
    _row_tracking,
    _clustering,
    _clustering_override,
    _chain,
)
