"""This module names buckets in messages and reports, and the files of an attempt."""

from __future__ import annotations

from lakecore.clock import Clock
from lakecore.compact.engine.work import Place
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text

__all__ = ["attempt_name", "place_name"]


def place_name(place: Place, schema: TableSchema) -> str:
    """Return a place as in `dt=2024-01-01,hh=2/bucket-0`."""
    values = decode_row(place.partition, schema.partition_type, "partition")
    bucket = "postpone" if place.bucket < 0 else place.bucket
    return "/".join(filter(None, (partition_text(values, schema.partition_type), f"bucket-{bucket}")))


def attempt_name(clock: Clock) -> str:
    """Return what distinguishes the files of one attempt at a unit from those of another: 16 letters and
    digits.
    """
    return clock.fresh_id().replace("-", "")[:16]
