"""This module selects the partitions and buckets of a table that a compaction covers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from lakecore.errors import InvalidInputError
from lakecore.jobs.definitions.compaction import Compact as Job
from lakecore.jobs.versions.tags import zone_offset_ms
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BucketMode
from lakecore.row.partition_path import parse_partitions
from lakecore.row.sort_rule import OrderStrategy
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table

__all__ = ["part_of", "partitions_of"]

_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


def part_of(table: Table, job: Job, now_ms: int, group_files: int = GROUP_FILES) -> ScanFilter:
    """Return the part of the table that `job.where`, `job.buckets` and `job.partition_idle_ms` select now.

    Finding idle partitions costs a plan and some 1 us a file; without that limit nothing is read. A table of
    more than `group_files` files is planned in groups of at most some so many. Raises InvalidInputError for
    values that do not fit the table.
    """
    chosen = partitions_of(table, job.where)
    if job.buckets is not None:
        chosen = ScanFilter(partitions=chosen.partitions, buckets=_buckets(table, job.buckets))
    if job.partition_idle_ms is None:
        return chosen
    if job.order_strategy is not OrderStrategy.NONE:
        raise InvalidInputError("partition-idle-time cannot be used with an order strategy; use where")
    snapshot = table._stores.snapshots.latest()
    if snapshot is None:
        return chosen
    local_ms = now_ms + zone_offset_ms(job.zone, now_ms)
    newest: dict[bytes, int] = {}
    for where in table._scanner.groups(snapshot, chosen, most=group_files, undivided=group_files):
        for partition, time_ms in _newest_files(table._scanner.live_entries(snapshot, where)):
            newest[partition] = max(time_ms, newest.get(partition, time_ms))
    before_ms = local_ms - job.partition_idle_ms
    idle = frozenset(partition for partition, time_ms in newest.items() if time_ms <= before_ms)
    return ScanFilter(partitions=chosen.partitions, buckets=chosen.buckets, serialized=idle)


def partitions_of(table: Table, where: str | None) -> ScanFilter:
    """Parse the text of a partition filter. Raises InvalidInputError for text that names no partitions of the
    table.
    """
    if where is None:
        return EVERYTHING
    partition_type = table.schema.partition_type
    return ScanFilter(
        partitions=parse_partitions(where, partition_type, table.options.partition_default_name)
    )


def _buckets(table: Table, text: str) -> frozenset[int]:
    """Parse buckets such as `0-99,200`. Only tables with a fixed number of buckets have stable bucket
    names.
    """
    options = table.options
    if options.bucket_mode is not BucketMode.HASH_FIXED:
        raise InvalidInputError(
            f"buckets={text!r}: table {table.name} has no fixed number of buckets; leave buckets out"
        )
    buckets: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        low = int(match[1]) if match else 0
        high = int(match[2] or low) if match else -1
        if low > high:
            raise InvalidInputError(f"buckets={text!r}: {part!r} is not a number or a range such as 0-99")
        if high >= options.bucket:
            raise InvalidInputError(
                f"buckets={text!r}: table {table.name} has buckets 0 to {options.bucket - 1}, not {high}"
            )
        buckets.update(range(low, high + 1))
    return frozenset(buckets)


def _newest_files(entries: ManifestEntries) -> Iterator[tuple[bytes, int]]:
    """Yield each partition with the time at which its youngest file was created, on the writers' wall
    clock.
    """
    newest = entries.newest()
    for code in np.unique(entries.partition).tolist():
        yield entries.partitions[code], int(newest[code])
