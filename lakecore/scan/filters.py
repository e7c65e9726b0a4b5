"""This module has the filters that a scan applies before it opens files: on manifests, partitions, buckets
and levels. It is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.block_spans import GroupBlocks
from lakecore.metadata.manifest.bucket_counts import BucketGroup
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.row.binary_row import decode_row
from lakecore.types.datatypes import RowType

__all__ = ["EVERYTHING", "ScanFilter", "filter_partitions", "keeps_manifest", "select_entries"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFilter:
    """These are restrictions of a scan, combined by AND. None means no restriction."""

    partitions: tuple[Mapping[str, Any], ...] | None = None
    """Partial partition specifications (column -> internal value); at least one must match."""
    serialized: frozenset[bytes] | None = None
    """These are the whole serialised partitions, or None for all."""
    buckets: frozenset[int] | None = None
    """These are the bucket numbers, or None for all."""
    levels: tuple[int, int] | None = None
    """These are the lowest and the highest level, both inclusive."""
    group: BucketGroup | None = field(default=None, compare=False, repr=False)
    """This is the group of buckets of which it is known in which blocks of manifests they lie. It restricts
    nothing.
    """

    def of_group(self, group: BucketGroup) -> ScanFilter:
        """Return the same filter of one group of buckets, all of which this one selects."""
        buckets = self.buckets if group.buckets is None else group.buckets
        return replace(self, serialized=group.partitions, buckets=buckets, group=group)

    @property
    def blocks(self) -> GroupBlocks | None:
        """Return the blocks of manifests that can have selected entries; None where that is not known, as for
        a filter that selects more than its group.
        """
        group = self.group
        if group is None or not _is_within(self.serialized, group.partitions):
            return None
        if group.buckets is not None and not _is_within(self.buckets, group.buckets):
            return None
        return group.blocks

    def check(self, partition_type: RowType) -> None:
        """Raise InvalidInputError for a column that is not a partition column."""
        for spec in self.partitions or ():
            for name in spec:
                if name not in partition_type.names:
                    names = ", ".join(partition_type.names) or "none"
                    raise InvalidInputError(
                        f"{name!r} is not a partition column; the partition columns are: {names}"
                    )


EVERYTHING = ScanFilter()


def _is_within(chosen: frozenset[T] | None, group: frozenset[T]) -> bool:
    """Return whether all that was chosen (None: everything) is of the group. Of a filter of the group itself
    both are one object: this is asked for each manifest.
    """
    return chosen is group or (chosen is not None and chosen <= group)


def keeps_manifest(file: ManifestFile, where: ScanFilter, partition_type: RowType) -> bool:
    """Return whether the manifest can hold an entry that the filter selects; True if its bounds were not
    recorded.
    """
    if where.buckets is not None and not _meets(file.min_bucket, file.max_bucket, where.buckets):
        return False
    if where.levels is not None and not _meets(file.min_level, file.max_level, where.levels):
        return False
    group_blocks = where.blocks
    if group_blocks is not None and (blocks := group_blocks.of(file.file_name)) is not None:
        return bool(blocks.any())
    if not partition_type.fields:
        return True
    box = _Box.of(file, partition_type)
    if where.partitions is not None and not any(box.meets(spec) for spec in where.partitions):
        return False
    if where.serialized is not None:
        return any(box.meets(spec) for spec in _specifications(where.serialized, partition_type))
    return True


@lru_cache(maxsize=4)
def _specifications(serialized: frozenset[bytes], partition_type: RowType) -> tuple[Mapping[str, Any], ...]:
    """Return the values of whole partitions by column: each of many manifests asks for them."""
    names = partition_type.names
    rows = (decode_row(partition, partition_type) for partition in serialized)
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


def _meets(low: int | None, high: int | None, values: Iterable[int]) -> bool:
    if low is None or high is None:
        return True
    return low <= max(values, default=low - 1) and min(values, default=high + 1) <= high


@dataclass(frozen=True, slots=True)
class _Box:
    """The bounds of one manifest, which are per column (low, high, null count); None means not recorded."""

    bounds: Mapping[str, tuple[Any, Any, int | None]]
    entries: int

    @classmethod
    def of(cls, file: ManifestFile, partition_type: RowType) -> _Box:
        stats = file.partition_stats
        missing = (None,) * len(partition_type.fields)
        lows, highs = missing, missing
        if EMPTY_ROW not in (stats.min_values, stats.max_values):
            lows = decode_row(stats.min_values, partition_type, file.file_name)
            highs = decode_row(stats.max_values, partition_type, file.file_name)
        nulls = (*stats.null_counts, *missing)[: len(lows)]
        return cls(
            dict(zip(partition_type.names, zip(lows, highs, nulls, strict=True), strict=True)),
            file.entry_count,
        )

    def meets(self, spec: Mapping[str, Any]) -> bool:
        return all(self._holds(name, value) for name, value in spec.items())

    def _holds(self, name: str, value: Any) -> bool:
        low, high, nulls = self.bounds[name]
        if value is None:
            return nulls != 0
        if low is None or high is None:
            return nulls is None or nulls < self.entries
        return bool(comparable(low) <= comparable(value) <= comparable(high))


def select_entries(entries: ManifestEntries, where: ScanFilter, partition_type: RowType) -> ManifestEntries:
    """Return the selected entries, in order. The filter looks only at fields that are part of an entry's
    identity.
    """
    keep = _partition_mask(entries, where, partition_type)
    if where.buckets is not None:
        keep = _both(keep, np.isin(entries.bucket, list(where.buckets)))
    if where.levels is not None:
        low, high = where.levels
        keep = _both(keep, (entries.level >= low) & (entries.level <= high))
    return entries if keep is None else entries.select(keep)


Mask = npt.NDArray[np.bool_]


def _both(left: Mask | None, right: Mask) -> Mask:
    return right if left is None else left & right


def _partition_mask(entries: ManifestEntries, where: ScanFilter, partition_type: RowType) -> Mask | None:
    if where.partitions is None and where.serialized is None:
        return None
    matches = filter_partitions(entries.partitions, where, partition_type)
    mask: Mask = matches[entries.partition] if len(matches) else np.zeros(len(entries), np.bool_)
    return mask


def filter_partitions(partitions: Sequence[bytes], where: ScanFilter, partition_type: RowType) -> Mask:
    """Return which of the serialised partitions the filter selects."""
    return np.array([_wants(value, where, partition_type) for value in partitions], np.bool_)


def _wants(partition: bytes, where: ScanFilter, partition_type: RowType) -> bool:
    if where.serialized is not None and partition not in where.serialized:
        return False
    if where.partitions is None:
        return True
    row = dict(zip(partition_type.names, decode_row(partition, partition_type), strict=True))
    return any(all(_same(row[name], value) for name, value in spec.items()) for spec in where.partitions)


def _same(left: Any, right: Any) -> bool:
    return bool(comparable(left) == comparable(right))
