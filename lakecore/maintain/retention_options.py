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
