"""This module has the options of the format `lakecore` that are for streaming reads only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.errors import InvalidOptionError
from lakecore.metadata.option_rules.event_times import READ_WATERMARK
from lakecore.options import Option, parse_bool, parse_size
from lakecore.read.source.alignment.rule import ALIGNMENT_OPTIONS
from lakecore.read.source.batch_limits import BatchLimits, BatchWait
from lakecore.read.source.stream import CONSUMER_ID, CONSUMER_MODE, IGNORE_PROGRESS
from lakecore.scan.stream_policy import (
    BOUNDED_WATERMARK,
    READ_APPEND_OVERWRITE,
    READ_OVERWRITE,
    SNAPSHOT_DELAY,
    STREAM_INTERVAL,
)

__all__ = [
    "KINDS",
    "LIMITS",
    "SOURCE_OPTIONS",
    "STREAM_ONLY",
    "TABLE_OPTIONS",
    "UPDATE_BEFORE",
    "batch_limits",
    "parse_count",
]


def parse_count(text: str) -> int:
    """Parse a number of at least 1. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError("it must be at least 1")
    return number


KINDS = Option("kinds", parse_bool, False, "The rows of a stream have the column `_kind`.")
UPDATE_BEFORE = Option("update-before", parse_bool, True, "The rows of a stream include those of kind `-U`.")
MAX_SNAPSHOTS: Option[int | None] = Option(
    "read.stream.maxsnapshotspertrigger", parse_count, None, "The most snapshots of a micro-batch."
)
MAX_SPLITS: Option[int | None] = Option(
    "read.stream.maxsplitspertrigger", parse_count, None, "The most splits of a micro-batch."
)
MAX_FILES: Option[int | None] = Option(
    "read.stream.maxfilespertrigger", parse_count, None, "The most files of a micro-batch."
)
MAX_ROWS: Option[int | None] = Option(
    "read.stream.maxrowspertrigger", parse_count, None, "The most rows of a micro-batch, before merging."
)
MAX_BYTES: Option[int | None] = Option(
    "read.stream.maxbytespertrigger", parse_size, None, "The most bytes of a micro-batch."
)
MIN_ROWS: Option[int | None] = Option(
    "read.stream.minrowspertrigger", parse_count, None, "A micro-batch with fewer rows waits for more."
)
MAX_DELAY: Option[int | None] = Option(
    "read.stream.maxtriggerdelayms", parse_count, None, "It waits so long after the one before (ms)."
)
ALIGNED = Option(
    "source.checkpoint-align.enabled", parse_bool, False, "A micro-batch has the changes of one snapshot."
)
LIMITS: tuple[Option[Any], ...] = (
    MAX_SNAPSHOTS, MAX_SPLITS, MAX_FILES, MAX_ROWS, MAX_BYTES, MIN_ROWS, MAX_DELAY, STREAM_INTERVAL, ALIGNED,
)  # fmt: skip
"""`batch_limits` is made of these."""
SOURCE_OPTIONS: tuple[Option[Any], ...] = (KINDS, UPDATE_BEFORE, *LIMITS)
"""The reader of a query obeys these."""
TABLE_OPTIONS: tuple[Option[Any], ...] = (
    CONSUMER_ID, IGNORE_PROGRESS, CONSUMER_MODE, BOUNDED_WATERMARK, SNAPSHOT_DELAY, READ_OVERWRITE,
    READ_APPEND_OVERWRITE, READ_WATERMARK, *ALIGNMENT_OPTIONS,
)  # fmt: skip
"""The stream of the table obeys these."""
STREAM_ONLY = tuple(key for option in (*SOURCE_OPTIONS, *TABLE_OPTIONS) for key in option.keys)
"""A read in batch is not given these options."""


def batch_limits(raw: Mapping[str, str]) -> BatchLimits:
    """Parse the limits of micro-batches. Raises InvalidOptionError for those that exclude each other."""
    limits = {
        "snapshots": MAX_SNAPSHOTS.read(raw),
        "splits": MAX_SPLITS.read(raw),
        "files": MAX_FILES.read(raw),
        "rows": MAX_ROWS.read(raw),
        "size": MAX_BYTES.read(raw),
    }
    if ALIGNED.read(raw):
        _check_aligned(raw)
        limits["snapshots"] = 1
    return BatchLimits(**limits, wait=_wait(raw))


def _check_aligned(raw: Mapping[str, str]) -> None:
    for option in (MAX_SNAPSHOTS, MAX_SPLITS, MAX_FILES, MAX_ROWS, MAX_BYTES, MIN_ROWS):
        if option.read(raw) is not None:
            raise InvalidOptionError(
                f"options {ALIGNED.key}=true and {option.key} exclude each other: a micro-batch is one whole "
                "snapshot then; leave one of them out"
            )


def _wait(raw: Mapping[str, str]) -> BatchWait:
    few, delay, most = MIN_ROWS.read(raw), MAX_DELAY.read(raw), MAX_ROWS.read(raw)
    if (few is None) != (delay is None):
        raise InvalidOptionError(
            f"options {MIN_ROWS.key} and {MAX_DELAY.key} belong together: give both, or none of them"
        )
    if few is not None and most is not None and few > most:
        raise InvalidOptionError(
            f"option {MIN_ROWS.key}={few} is more than {MAX_ROWS.key}={most}: give a smaller number"
        )
    return BatchWait(
        min_rows=few,
        max_delay_ms=delay,
        discovery_ms=STREAM_INTERVAL.read(raw) if STREAM_INTERVAL.key in raw else None,
    )
