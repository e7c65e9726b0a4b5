"""This module reads which partitions of a table have files, and their ages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lakecore.maintain.partitions.plan import AgedPartition, ExpireStrategy
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_text
from lakecore.types.datatypes import AtomicType, TypeRoot
from lakecore.types.text import value_text

__all__ = ["aged_partitions", "partition_label", "partition_of"]

_NUMBERED = (TypeRoot.DATE, TypeRoot.TIME)


def aged_partitions(
    target: Target, entries: ManifestEntries, strategy: ExpireStrategy, offset_ms: int
) -> list[AgedPartition]:
    """Return the partitions that have files. `offset_ms` is that of the writers' wall clock to UTC.

    By update time it costs a pass over every file (some 1 us each), else at each partition.
    """
    by_update = strategy is ExpireStrategy.UPDATE_TIME
    newest = entries.newest() if by_update else np.zeros(len(entries.partitions), np.int64)
    return [
        partition_of(target, entries.partitions[code], int(newest[code]) - offset_ms)
        for code in np.unique(entries.partition).tolist()
    ]


def partition_of(target: Target, serialised: bytes, updated_ms: int = 0) -> AgedPartition:
    """Return a partition from its serialised row. Raises CorruptDataError for bytes that are none."""
    partition_type = target.schema.partition_type
    row = decode_row(serialised, partition_type, target.paths.table_path)
    texts = tuple(_text(value, field.type) for value, field in zip(row, partition_type.fields, strict=True))
    values = dict(zip(partition_type.names, row, strict=True))
    return AgedPartition(values=values, texts=texts, updated_ms=updated_ms)


def _text(value: Any, kind: Any) -> str | None:
    """Return the text of a partition value. Rule of the format: it is the internal value, so a DATE is a
    number of days.
    """
    if value is None:
        return None
    if isinstance(kind, AtomicType) and kind.root in _NUMBERED:
        return str(value)
    return value_text(value, kind)


def partition_label(target: Target, values: Mapping[str, Any]) -> str:
    """Return a partition as in `dt=2024-01-01,hh=2`."""
    partition_type = target.schema.partition_type
    return partition_text([values[name] for name in partition_type.names], partition_type)
