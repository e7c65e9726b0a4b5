"""This module has the options of lookup tables, and decides which tables can be followed. Pure.

Names and defaults are those of Paimon (FlinkConnectorOptions, CoreOptions).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.lookup.query.cache_options import BLOOM, BLOOM_FPP, CODEC, MAX_DISK, MAX_MEMORY, RETENTION
from lakecore.lookup.query.support import check_lookups
from lakecore.lookup.tables.loaded_partitions import PARTITIONS
from lakecore.lookup.tables.refresh_periods import Periods, parse_periods
from lakecore.merge.engines.partial_update import REMOVE_ON_DELETE
from lakecore.metadata.dedicated_columns import holds_blobs
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum
from lakecore.scan.startup import StartupMode
from lakecore.scan.stream_policy import READ_OVERWRITE, STREAM_INTERVAL

__all__ = [
    "CacheMode",
    "LookupOptions",
    "check_changes",
    "check_given",
    "follows_compactions",
    "is_partial",
]


class CacheMode(Enum):
    """It says what a lookup table keeps: `auto` only what lookups need, if that is possible; `full` all rows
    on the local disk; `memory` all rows in memory.
    """

    AUTO = "auto"
    FULL = "full"
    MEMORY = "memory"


def _count(text: str) -> int:
    number = int(text) if text.strip().isdigit() else 0
    if number < 1:
        raise ValueError("it must be a whole number of at least 1")
    return number


CACHE = Option("lookup.cache", parse_enum(CacheMode), CacheMode.AUTO, "What is kept.")
INTERVAL: Option[int | None] = Option(
    "lookup.continuous.discovery-interval", parse_duration_ms, None, "Time between two refreshes (ms).",
    ("lookup.refresh.interval",),
)  # fmt: skip
ASYNC = Option("lookup.refresh.async", parse_bool, False, "Refresh in a thread, while lookups go on.")
PENDING = Option("lookup.refresh.async.pending-snapshot-count", _count, 5, "More wait for the refresh.")
PERIODS: Option[Periods] = Option(
    "lookup.refresh.time-periods-blacklist", parse_periods, (), "Periods without a refresh."
)
FULL_LOAD = Option("lookup.refresh.full-load-threshold", _count, sys.maxsize, "More are loaded as a whole.")
PARTITION_INTERVAL = Option(
    "lookup.dynamic-partition.refresh-interval", parse_duration_ms, 3_600_000, "Time between two looks (ms)."
)
PARTITION_ASYNC = Option(
    "lookup.dynamic-partition.refresh.async", parse_bool, False, "Load new partitions in a thread."
)
_OBEYED = frozenset(
    key
    for option in (
        CACHE, MAX_MEMORY, CODEC, MAX_DISK, RETENTION, BLOOM, BLOOM_FPP, INTERVAL, STREAM_INTERVAL,
        ASYNC, PENDING, PERIODS, FULL_LOAD,
        PARTITION_INTERVAL, PARTITION_ASYNC, READ_OVERWRITE, PARTITIONS,
    )
    for key in option.keys
)  # fmt: skip
_REFUSED = {
    "limit": "a lookup has all rows of its keys: a limit would leave some out",
    "lookup.async": "lookups are answered at once, many keys in one call",
    "lookup.async-thread-number": "lookups are answered at once, many keys in one call",
    "lookup.bootstrap-parallelism": "a large table is loaded by one thread a core",
    "lookup.cache-rows": "memory is bounded in bytes; set lookup.cache-max-memory-size",
    "lookup.hash-load-factor": "the index is sorted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """These are the options of one lookup table, typed. Times are in milliseconds, sizes in bytes."""

    cache: CacheMode
    memory: int
    codec: str | None
    interval_ms: int
    refreshes_async: bool
    pending: int
    periods: Periods
    full_load: int
    partition_interval_ms: int
    partitions_async: bool

    @classmethod
    def read(cls, raw: Mapping[str, str]) -> LookupOptions:
        """Read the options of a table. Raises InvalidOptionError."""
        interval = INTERVAL.read(raw)
        return cls(
            cache=CACHE.read(raw),
            memory=MAX_MEMORY.read(raw),
            codec=CODEC.read(raw),
            interval_ms=STREAM_INTERVAL.read(raw) if interval is None else interval,
            refreshes_async=ASYNC.read(raw),
            pending=PENDING.read(raw),
            periods=PERIODS.read(raw),
            full_load=FULL_LOAD.read(raw),
            partition_interval_ms=PARTITION_INTERVAL.read(raw),
            partitions_async=PARTITION_ASYNC.read(raw),
        )


def check_given(options: Mapping[str, str]) -> None:
    """Raise InvalidOptionError for an option of a lookup that has no effect. Those that are stored in a
    table may be for other engines, and are left alone.
    """
    for key, value in options.items():
        if key not in _OBEYED and (key, value) != ("scan.mode", StartupMode.COMPACTED_FULL.value):
            names = ", ".join(sorted(_OBEYED))
            problem = _REFUSED.get(key, f"it has no effect on a lookup table; the options are {names}")
            raise InvalidOptionError(f"option {key}={value!r}: {problem}; leave it out")


def is_partial(
    table: str, schema: TableSchema, options: TableOptions, on: Sequence[str], columns: Sequence[str]
) -> bool:
    """Tell whether a lookup table by the columns `on` keeps only what lookups need: the option `lookup.cache`
    allows it, `on` is the primary key, no option chooses partitions, and local queries answer for the table.
    """
    raw = schema.options
    by_key = bool(schema.primary_keys) and set(on) == set(schema.primary_keys)
    if CACHE.read(raw) is not CacheMode.AUTO or not by_key or PARTITIONS.read(raw) is not None:
        return False
    try:
        check_lookups(table, schema, options, tuple(columns))
    except UnsupportedError:
        return False
    return True


def follows_compactions(schema: TableSchema, options: TableOptions) -> bool:
    """Return whether the changes of compactions tell the rows of a table with a primary key. Rule of Paimon's
    TableScanUtils.supportCompactDiffStreamingReading.
    """
    return (
        options.changelog_producer is ChangelogProducer.NONE
        and options.needs_lookup
        and options.merge_engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        and not REMOVE_ON_DELETE.read(schema.options)
    )


def check_changes(table: str, schema: TableSchema, options: TableOptions, columns: tuple[str, ...]) -> None:
    """Raise UnsupportedError unless the changes of the table tell its rows.

    Paimon refuses engines that merge rows without a changelog, too
    (TableScanUtils.streamingReadingValidate). It accepts changelog-producer=input, whose changes are rows
    before the merge: a cache would have wrong rows.
    """
    blobs = [name for name in columns if holds_blobs(schema.row_type.field(name).type)]
    if blobs:
        raise UnsupportedError(
            f"table {table}: column {blobs[0]} has blobs, which a lookup table does not keep; name "
            f"other columns"
        )
    if schema.primary_keys and options.record_expire_ms is not None:
        raise UnsupportedError(
            f"table {table}: option record-level.expire-time: no change says that a row expired; scan it"
        )
    if schema.primary_keys and follows_compactions(schema, options):
        return
    exact = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    engine, producer = options.merge_engine, options.changelog_producer
    if schema.primary_keys and engine is not MergeEngine.DEDUPLICATE and producer not in exact:
        raise UnsupportedError(
            f"table {table}: option merge-engine={engine.value} with "
            f"changelog-producer={producer.value}: its "
            "changes are not its rows, so that a full cache cannot follow them; set changelog-producer to "
            "lookup or full-compaction"
            + (", or look up by the whole primary key with lookup.cache=auto" if options.needs_lookup else "")
        )
