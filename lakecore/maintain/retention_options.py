"""Table options that say how long things are kept."""

from __future__ import annotations

from lakecore.options import Option, parse_bool, parse_duration_ms

__all__ = [
    "CHANGELOG_MAX",
    "CHANGELOG_MIN",
    "CHANGELOG_TIME",
    "CONSUMER_CHANGELOG_ONLY",
    "CONSUMER_TIME",
    "EXPIRE_LIMIT",
    "PARTITION_BATCH",
    "PARTITION_FORMATTER",
    "PARTITION_MAX",
    "PARTITION_PATTERN",
    "PARTITION_STRATEGY",
    "PARTITION_TIME",
    "SNAPSHOT_MAX",
    "SNAPSHOT_MIN",
    "SNAPSHOT_TIME",
    "TAG_DEFAULT_TIME",
]

_MANY = 2147483647

SNAPSHOT_MAX = Option("snapshot.num-retained.max", int, _MANY, "Snapshots kept at most.")
SNAPSHOT_MIN = Option("snapshot.num-retained.min", int, 10, "Snapshots kept at least.")
SNAPSHOT_TIME = Option("snapshot.time-retained", parse_duration_ms, 3_600_000, "How long snapshots are kept.")
EXPIRE_LIMIT = Option("snapshot.expire.limit", int, 50, "Snapshots that one run expires at most.")
CHANGELOG_MAX: Option[int | None] = Option(
    "changelog.num-retained.max", int, None, "Changelogs kept at most; default as snapshots."
)
CHANGELOG_MIN: Option[int | None] = Option(
    "changelog.num-retained.min", int, None, "Changelogs kept at least; default as snapshots."
)
CHANGELOG_TIME: Option[int | None] = Option(
    "changelog.time-retained", parse_duration_ms, None, "How long changelogs are kept; default as snapshots."
)
CONSUMER_CHANGELOG_ONLY = Option(
    "consumer.changelog-only", parse_bool, False, "Consumers hold changelogs, not snapshots."
)
CONSUMER_TIME: Option[int | None] = Option(
    "consumer.expiration-time", parse_duration_ms, None, "Consumers idle for longer are forgotten."
)
TAG_DEFAULT_TIME: Option[int | None] = Option(
    "tag.default-time-retained", parse_duration_ms, None, "How long tags are kept unless they say."
)
PARTITION_TIME: Option[int | None] = Option(
    "partition.expiration-time", parse_duration_ms, None, "How long partitions stay; default for ever."
)
PARTITION_STRATEGY = Option(
    "partition.expiration-strategy", str, "values-time", "values-time or update-time."
)
PARTITION_PATTERN: Option[str | None] = Option(
    "partition.timestamp-pattern", str, None, "How partition columns make a time: '$dt $hour:00:00'."
)
PARTITION_FORMATTER: Option[str | None] = Option(
    "partition.timestamp-formatter", str, None, "How that time is written: 'yyyyMMdd'."
)
PARTITION_MAX = Option("partition.expiration-max-num", int, 100, "Partitions that one run drops at most.")
PARTITION_BATCH = Option("partition.expiration-batch-size", int, 100, "Partitions that one commit drops.")
