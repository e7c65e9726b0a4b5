"""This module cuts the changes of a snapshot into pieces, so that a micro-batch may end inside a snapshot.

A piece is a file of changes, or a split whose files must stay together. The pieces of a bucket stay in the
order in which its rows were changed. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.read.source.batch_limits import BatchLimits, BatchSize
from lakecore.read.source.scan import Scan
from lakecore.scan.split import Split, SplitPlan

__all__ = ["Piece", "Work", "by_bucket", "count_admitted", "cut_changes", "plan_digest", "split_of"]

Piece: TypeAlias = tuple[Scan, Any]
"""It is a part of a scan, with the scan that reads it."""
Work: TypeAlias = tuple[Piece, ...]
"""One task reads these parts in their order, each with its scan. It can be pickled."""


def cut_changes(rows: Scan, parts: Iterable[Any], options: TableOptions) -> tuple[Piece, ...]:
    """Return the pieces of changes: each file of a bucket alone, in order, where nothing merges them."""
    merges = options.bucket_mode is BucketMode.BUCKET_UNAWARE or options.data_evolution
    pieces: list[Piece] = []
    for part in parts:
        if merges or not isinstance(part, Split):
            pieces.append((rows, part))
        else:
            pieces += [(rows, replace(part, files=(file,))) for file in part.files]
    return tuple(pieces)


def split_of(part: Any) -> Split:
    """Return the split of a part; a part may be a split and a flag."""
    split: Split = part[0] if isinstance(part, tuple) else part
    return split


def plan_digest(parts: Iterable[Any]) -> str:
    """Return a text that is another one when the parts, their files or their order are others."""
    digest = hashlib.sha256()
    for partition, bucket, names in parts.names() if isinstance(parts, SplitPlan) else _names(parts):
        digest.update(partition + bucket.to_bytes(4, "big", signed=True))
        for name in names:
            digest.update(name + b"\0")
    return digest.hexdigest()[:16]


def _names(parts: Iterable[Any]) -> Iterator[tuple[bytes, int, list[bytes]]]:
    for split in map(split_of, parts):
        yield split.partition, split.bucket, [file.file_name.encode() for file in split.files]


def count_admitted(
    parts: Sequence[Any], limits: BatchLimits, before: BatchSize | None = None, snapshots: int = 0
) -> int:
    """Return how many of the parts fit into a micro-batch that has `before` already; at least one if it has
    nothing.
    """
    total = (before or BatchSize()).plus(BatchSize(snapshots=snapshots))
    for number, part in enumerate(parts):
        total = total.plus(BatchSize.of([part]))
        if (number or before is not None) and not limits.admit(total):
            return number
    return len(parts)


def by_bucket(pieces: Iterable[Piece]) -> tuple[Work, ...]:
    """Return the pieces of a bucket together, in their order."""
    groups: dict[tuple[bytes, int], list[Piece]] = {}
    for rows, part in pieces:
        split = split_of(part)
        groups.setdefault((split.partition, split.bucket), []).append((rows, part))
    return tuple(map(tuple, groups.values()))
