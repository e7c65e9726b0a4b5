"""This module names the partitions that a commit touches, and the manifests that can hold them. It is
pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.metadata.key_order import comparable
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.row.binary_row import decode_row
from lakecore.types.datatypes import RowType

__all__ = ["PartitionBounds", "SpecFilter"]


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """These are the bounds of a set of partitions. For each partition column they have the lowest and
    highest (comparable) value, and whether null occurs.

    The box covers more than the set of partitions: a manifest that meets it may still hold none of them.
    """

    partition_type: RowType
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]
    nulls: tuple[bool, ...]

    @classmethod
    def of(cls, partitions: Iterable[bytes], partition_type: RowType) -> PartitionBounds:
        """Compute the box of serialised partitions, at least one."""
        rows = [decode_row(partition, partition_type) for partition in partitions]
        columns = [[row[i] for row in rows] for i in range(len(partition_type.fields))]
        values = [[comparable(value) for value in column if value is not None] for column in columns]
        return cls(
            partition_type,
            tuple(min(column, default=None) for column in values),
            tuple(max(column, default=None) for column in values),
            tuple(None in column for column in columns),
        )

    def meets(self, manifest: ManifestFile) -> bool:
        """Return whether the manifest can hold an entry inside the box; True where bounds are not
        recorded.
        """
        stats = manifest.partition_stats
        count = len(self.partition_type.fields)
        if count == 0 or manifest.entry_count == 0:
            return True
        lows = decode_row(stats.min_values, self.partition_type, manifest.file_name)
        highs = decode_row(stats.max_values, self.partition_type, manifest.file_name)
        unknown = (None,) * count
        null_counts = (*stats.null_counts, *unknown)[:count]
        return all(
            self._column_meets(i, lows[i], highs[i], null_counts[i], manifest.entry_count)
            for i in range(count)
        )

    def _column_meets(self, i: int, low: Any, high: Any, null_count: int | None, entries: int) -> bool:
        if self.nulls[i] and null_count != 0:
            return True
        if self.lows[i] is None:
            return False
        if low is None or high is None:
            return null_count is None or null_count < entries
        return bool(comparable(low) <= self.highs[i] and self.lows[i] <= comparable(high))


@dataclass(frozen=True, slots=True)
class SpecFilter:
    """It selects partitions that agree with one of some partial specifications (column name -> internal
    value).
    """

    specs: tuple[Mapping[str, Any], ...]
    partition_type: RowType

    def __post_init__(self) -> None:
        names = self.partition_type.names
        for spec in self.specs:
            for name in spec:
                if name not in names:
                    columns = ", ".join(names) or "none"
                    raise InvalidInputError(
                        f"{name!r} is not a partition column; partition columns: {columns}"
                    )

    def select(self, partitions: Sequence[bytes]) -> frozenset[bytes]:
        """Return the serialised partitions that agree."""
        if any(not spec for spec in self.specs):
            return frozenset(partitions)
        return frozenset(partition for partition in partitions if self._agrees(partition))

    def _agrees(self, partition: bytes) -> bool:
        values = dict(zip(self.partition_type.names, decode_row(partition, self.partition_type), strict=True))
        return any(all(values[name] == value for name, value in spec.items()) for spec in self.specs)
