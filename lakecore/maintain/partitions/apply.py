"""This module reads which partitions of a table have files, and their ages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakecore.maintain.partitions.plan import AgedPartition, ExpireStrategy
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import NO_TIME, ManifestEntries
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import internal_text, partition_text
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["PartitionAges", "partition_label", "partition_of"]

_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


class PartitionAges:
    """It collects which partitions have files, and how old they are, from groups of live entries.

    By update time it costs a pass over every file (some 1 us each), else at each partition. Memory: some
    500 bytes a partition.
    """

    def __init__(self, target: Target, strategy: ExpireStrategy) -> None:
        self._target, self._by_update = target, strategy is ExpireStrategy.UPDATE_TIME
        self._updated: dict[bytes, int] = {}
        self._files: dict[bytes, int] = {}
        self._untimed: set[bytes] = set()

    def add(self, entries: ManifestEntries) -> None:
        """Add live entries, none of which was added before. A partition may be in several groups."""
        partitions = entries.partitions
        times = entries.times() if self._by_update else np.zeros(len(entries), np.int64)
        newest = entries.newest(times)
        codes, files = np.unique(entries.partition, return_counts=True)
        for code, count in zip(codes.tolist(), files.tolist(), strict=True):
            place, time = partitions[code], int(newest[code])
            self._updated[place] = max(time, self._updated.get(place, time))
            self._files[place] = self._files.get(place, 0) + count
        untimed = np.unique(entries.partition[times == NO_TIME])
        self._untimed.update(partitions[code] for code in untimed.tolist())

    def partitions(self, offset_ms: int) -> list[AgedPartition]:
        """Return the partitions. `offset_ms` is that of the writers' wall clock to UTC. By update time, a
        partition with a file of unknown time has no time. Raises CorruptDataError for bytes that are no
        partition.
        """
        return [
            replace(
                partition_of(self._target, place),
                updated_ms=None if place in self._untimed else time - offset_ms,
                files=self._files[place],
            )
            for place, time in self._updated.items()
        ]


def partition_of(target: Target, serialised: bytes) -> AgedPartition:
    """Return a partition from its serialised row. Raises CorruptDataError for bytes that are none."""
    partition_type = target.schema.partition_type
    row = decode_row(serialised, partition_type, target.paths.table_path)
    texts = tuple(_text(value, field.type) for value, field in zip(row, partition_type.fields, strict=True))
    values = dict(zip(partition_type.names, row, strict=True))
    return AgedPartition(values=values, texts=texts, updated_ms=None)


def _text(value: Any, kind: Any) -> str | None:
    """Return the text of a partition value. Rule of the format: it is that of the internal value; that of
    bytes stands for no time.
    """
    if value is None or (isinstance(kind, AtomicType) and kind.root in _BYTES):
        return None
    return internal_text(value, kind)


def partition_label(target: Target, values: Mapping[str, Any]) -> str:
    """Return a partition as in `dt=2024-01-01,hh=2`."""
    partition_type = target.schema.partition_type
    return partition_text([values[name] for name in partition_type.names], partition_type)
