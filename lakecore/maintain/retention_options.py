"""This module has the table options that say how long things are kept."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum

__all__ = [
    "CHANGELOG_MAX",
    "CHANGELOG_MIN",
    "CHANGELOG_TIME",
    "CONSUMER_CHANGELOG_ONLY",
    "CONSUMER_TIME",
    "END_CHECK",
    "EXPIRE_LIMIT",
    "EXPIRE_MODE",
    "PARTITION_BATCH",
    "PARTITION_CHECK",
    "PARTITION_FORMATTER",
    "PARTITION_MAX",
    "PARTITION_PATTERN",
    "PARTITION_STRATEGY",
    "PARTITION_TIME",
    "SNAPSHOT_MAX",
    "SNAPSHOT_MIN",
    "SNAPSHOT_TIME",
    "TAG_DEFAULT_TIME",
    "ExpireMode",
    "check_services",
]


class ExpireMode(Enum):
    """It says whether a commit waits for the expiry that follows it."""

    SYNC = "sync"
    ASYNC = "async"


_MANY = 2147483647

SNAPSHOT_MAX = Option("snapshot.num-retained.max", int, _MANY, "Maximum number of snapshots that are kept.")
SNAPSHOT_MIN = Option("snapshot.num-retained.min", int, 10, "Minimum number of snapshots that are kept.")
SNAPSHOT_TIME = Option("snapshot.time-retained", parse_duration_ms, 3_600_000, "How long snapshots are kept.")
EXPIRE_LIMIT = Option("snapshot.expire.limit", int, 50, "Maximum number of snapshots that one run expires.")
EXPIRE_MODE = Option(
    "snapshot.expire.execution-mode",
    parse_enum(ExpireMode),
    ExpireMode.SYNC,
    "Whether a commit waits for the expiry that follows it.",
)
CHANGELOG_MAX: Option[int | None] = Option(
    "changelog.num-retained.max",
    int,
    None,
    "Maximum number of changelogs that are kept; the default is that of snapshots.",
)
CHANGELOG_MIN: Option[int | None] = Option(
    "changelog.num-retained.min",
    int,
    None,
    "Minimum number of changelogs that are kept; the default is that of snapshots.",
)
CHANGELOG_TIME: Option[int | None] = Option(
    "changelog.time-retained",
    parse_duration_ms,
    None,
    "How long changelogs are kept; the default is that of snapshots.",
)
CONSUMER_CHANGELOG_ONLY = Option(
    "consumer.changelog-only", parse_bool, False, "Whether consumers retain changelogs, not snapshots."
)
CONSUMER_TIME: Option[int | None] = Option(
    "consumer.expiration-time",
    parse_duration_ms,
    None,
    "Time without progress after which consumers are deleted.",
)
TAG_DEFAULT_TIME: Option[int | None] = Option(
    "tag.default-time-retained",
    parse_duration_ms,
    None,
    "How long tags are kept that have no time of their own.",
)
PARTITION_TIME: Option[int | None] = Option(
    "partition.expiration-time",
    parse_duration_ms,
    None,
    "How long partitions are kept; the default is for ever.",
)
PARTITION_STRATEGY = Option(
    "partition.expiration-strategy", str, "values-time", "values-time or update-time."
)
PARTITION_PATTERN: Option[str | None] = Option(
    "partition.timestamp-pattern", str, None, "How partition columns form a time: '$dt $hour:00:00'."
)
PARTITION_FORMATTER: Option[str | None] = Option(
    "partition.timestamp-formatter", str, None, "Format of that time: 'yyyyMMdd'."
)
PARTITION_MAX = Option(
    "partition.expiration-max-num", int, 100, "Maximum number of partitions that one run drops."
)
PARTITION_BATCH = Option(
    "partition.expiration-batch-size", int, 100, "Maximum number of partitions that one commit drops."
)
PARTITION_CHECK = Option(
    "partition.expiration-check-interval",
    parse_duration_ms,
    3_600_000,
    "Time between two looks of writers at the partitions (ms).",
)
END_CHECK = Option(
    "end-input.check-partition-expire",
    parse_bool,
    False,
    "Whether the commit of a batch looks at the partitions, whatever the interval.",
)


def check_services(raw: Mapping[str, str]) -> None:
    """Read the options of the expiry that follows commits. Raises InvalidOptionError."""
    for option in (SNAPSHOT_MAX, SNAPSHOT_MIN, SNAPSHOT_TIME, EXPIRE_LIMIT, CONSUMER_TIME, PARTITION_TIME):
        option.read(raw)
    EXPIRE_MODE.read(raw)
    PARTITION_CHECK.read(raw)
    END_CHECK.read(raw)
