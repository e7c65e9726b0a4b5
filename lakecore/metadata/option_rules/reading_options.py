"""This module refuses options that were given for a read and that this kind of read does not obey. Pure.

An option that is stored in a table speaks to all readers of the table and is never refused here. One that is
given for a read (`with_options`, `--option`, options of Spark's reader) would be without effect, so that it
is refused by name, with what obeys it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lakecore.errors import InvalidOptionError
from lakecore.metadata.option_rules.event_times import READ_WATERMARK
from lakecore.metadata.options import DELETION_VECTORS_MERGE
from lakecore.metadata.schema import TableSchema

__all__ = ["check_batch_options", "check_micro_batch_options", "check_poll_options", "names_interval"]

_CONSUMER, _MODE = "consumer-id", "consumer.mode"
_DISCOVERY = "continuous.discovery-interval"
_OVERWRITES, _ADDED_BY_OVERWRITES = "streaming-read-overwrite", "streaming-read-append-overwrite"
_SEQUENCE = "table-read.sequence-number.enabled"
_ALIGNMENT = (
    "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval", "scan.watermark.idle-timeout", READ_WATERMARK.key,
)  # fmt: skip
_STREAMS = (
    _CONSUMER, _MODE, "consumer.ignore-progress", "scan.bounded.watermark", "streaming.read.snapshot.delay",
    _OVERWRITES, _ADDED_BY_OVERWRITES, *_ALIGNMENT,
)  # fmt: skip
_INTERVAL_MODES = ("incremental-between-scan-mode", "incremental-between-tag-to-snapshot")
_OF_LOOKUPS = ("lookup.", "scan.partitions")
_FOR_LOOKUPS = (
    "it is for lookups (`Table.new_lookup`); select partitions and rows of a read by where, or leave it out"
)
_FOR_LOGS = "only $audit_log and $binlog show sequence numbers; read one of them, or leave it out"
_FOR_STREAMS = (
    "a batch read does not obey it; read a stream (`Table.stream`, spark.readStream), or leave it out"
)
_FOR_INTERVALS = (
    "it has no effect without incremental-between; give both, or the mode of the argument `incremental`"
)
_ONE_BRANCH = "a stream reads one branch; name it (branch=NAME), or leave the option out"
_NO_INTERVAL = "a stream reads no interval; use a batch read, or leave the option out"
_WAITS_FOR_NONE = (
    "a stream of `Table.stream` waits for no other stream; read it with Spark (spark.readStream), or leave "
    "the option out"
)
_WITHOUT_CONSUMER = f"it has no effect without {_CONSUMER}; name a consumer, or leave the option out"

_BATCH: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_STREAMS, _FOR_STREAMS)
    | {_DISCOVERY: "a batch read looks for its snapshot once; spark.readStream and lookups obey it"}
)
_STREAM: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_INTERVAL_MODES, _NO_INTERVAL)
    | dict.fromkeys(("scan.fallback-branch", "scan.primary-branch"), _ONE_BRANCH)
    | {DELETION_VECTORS_MERGE.key: "the first rows of a stream include those of level 0 anyway; leave it out"}
)
_POLL: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_ALIGNMENT, _WAITS_FOR_NONE)
    | {
        _DISCOVERY: (
            "a poll of `Table.stream` looks for a snapshot at once; wait between polls (`Stream.wait`, "
            "`lakecore stream --follow SECONDS`), or read with spark.readStream, which obeys it"
        ),
        _MODE: (
            "a stream of `Table.stream` stores the position of its consumer when `Stream.acknowledge` is "
            "called, and `lakecore stream` after the rows of each snapshot are printed; leave it out"
        ),
    }
)


def names_interval(options: Mapping[str, str]) -> bool:
    """Return whether an option says how an interval is read, which has no effect on other reads."""
    return not options.keys().isdisjoint(_INTERVAL_MODES)


def check_batch_options(overrides: Mapping[str, str], *, is_log: bool, is_interval: bool) -> None:
    """Raise InvalidOptionError for an option of a handle that a batch read does not obey.

    `is_log`: `$audit_log` or `$binlog` is read; `is_interval`: the options say which interval is read.
    """
    _refuse(overrides, _BATCH)
    _refuse_common(overrides, is_log=is_log)
    if not is_interval:
        _refuse(overrides, dict.fromkeys(_INTERVAL_MODES, _FOR_INTERVALS))


def check_poll_options(
    overrides: Mapping[str, str], schema: TableSchema, consumer: str | None, *, is_log: bool = False
) -> None:
    """Raise InvalidOptionError for an option of a handle that `Table.stream` does not obey, for a stream with
    this consumer or that of the options.
    """
    _refuse(overrides, _POLL)
    _refuse_of_streams(overrides, schema, consumer, is_log=is_log)


def check_micro_batch_options(
    overrides: Mapping[str, str], schema: TableSchema, *, is_log: bool = False
) -> None:
    """Raise InvalidOptionError for an option of a handle that the streams of Spark do not obey."""
    _refuse_of_streams(overrides, schema, None, is_log=is_log)
    if _CONSUMER not in schema.options:
        _refuse(overrides, {_MODE: _WITHOUT_CONSUMER})


def _refuse_of_streams(
    overrides: Mapping[str, str], schema: TableSchema, consumer: str | None, *, is_log: bool
) -> None:
    _refuse(overrides, _STREAM)
    _refuse_common(overrides, is_log=is_log)
    if schema.primary_keys:
        _refuse(overrides, {_ADDED_BY_OVERWRITES: f"the table has a primary key; use {_OVERWRITES}"})
    if consumer is None and _CONSUMER not in schema.options:
        _refuse(overrides, {"consumer.ignore-progress": _WITHOUT_CONSUMER})


def _refuse_common(overrides: Mapping[str, str], *, is_log: bool) -> None:
    _refuse(overrides, {key: _FOR_LOOKUPS for key in overrides if key.startswith(_OF_LOOKUPS)})
    if not is_log:
        _refuse(overrides, {_SEQUENCE: _FOR_LOGS})


def _refuse(overrides: Mapping[str, str], reasons: Mapping[str, str]) -> None:
    for key, why in reasons.items():
        if key in overrides:
            raise InvalidOptionError(f"option {key}={overrides[key]!r}: it has no effect here: {why}")
