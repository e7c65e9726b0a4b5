"""This module has `$tags`, `$branches`, `$consumers`: the named parts of a table."""

from __future__ import annotations

from collections.abc import Iterator

from lakecore.metadata.snapshot import Snapshot
from lakecore.metadata.tag import Tag
from lakecore.read.source.readable import Readable
from lakecore.system.columns import columns
from lakecore.system.text import MILLI_NANOS
from lakecore.system.view import Listing, Row

__all__ = ["BRANCHES", "CONSUMERS", "TAGS"]

_SECOND = 1_000_000_000


def _tags(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    for name in table._stores.tags.list():
        tag = table._stores.tags.open(name)
        yield (
            name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis * MILLI_NANOS,
            tag.snapshot.total_record_count,
            tag.created,
            _retained_text(tag),
        )


def _retained_text(tag: Tag) -> str | None:
    """Format a duration in ISO-8601 with hours as the largest unit: `PT25H0.5S`."""
    if tag.retained is None:
        return None
    seconds, fraction = divmod(tag.retained, _SECOND)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    second = f"{rest}.{fraction:09d}".rstrip("0").rstrip(".") if fraction else str(rest)
    parts = ((str(hours), "H"), (str(minutes), "M"), (second, "S"))
    return "PT" + ("".join(text + unit for text, unit in parts if text != "0") or "0S")


TAGS = Listing(
    columns(
        "tag_name STRING NOT NULL",
        "snapshot_id BIGINT NOT NULL",
        "schema_id BIGINT NOT NULL",
        "commit_time TIMESTAMP(3) NOT NULL",
        "record_count BIGINT",
        "create_time TIMESTAMP(9)",
        "time_retained STRING",
    ),
    _tags,
)


def _branches(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    """List the branches. The time is that of the branch's directory, where storage returns it; else of its
    first schema.
    """
    for name in table._stores.branches.list():
        paths = table._stores.branches.open(name)
        status = table._stores.file_io.stat(paths.root)
        yield name, (0 if status is None else status.mtime_ms) * MILLI_NANOS


BRANCHES = Listing(columns("branch_name STRING NOT NULL", "create_time TIMESTAMP(3) NOT NULL"), _branches)


def _consumers(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    return ((consumer.id, consumer.next_snapshot) for consumer in table._stores.consumers.list())


CONSUMERS = Listing(columns("consumer_id STRING NOT NULL", "next_snapshot_id BIGINT NOT NULL"), _consumers)
