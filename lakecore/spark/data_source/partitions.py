"""This module packs the splits of a scan into the partitions of a read, which become tasks of Spark.

A split is a partition, and `source.split.target-size` and `source.split.open-file-cost` decide what a split
is. A split that must stay whole for the format, and is larger than that, is cut here: its files, sections or
ranges of keys are read by several tasks (see `cut_split`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.read.source.lineage.read_versions import report_reads
from lakecore.read.source.resolve_blobs import ResolvedBlobRows, without_resolved_blobs
from lakecore.read.source.scan import Scan
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.read.split.split_cuts import SplitShare
from lakecore.scan.filters import ScanFilter
from lakecore.scan.plan import SplitPolicy
from lakecore.scan.split import Split
from lakecore.spark.data_source.request import Parallelism

__all__ = ["Parts", "pack_parts", "plan_partitions", "plan_parts", "read_parts"]

TASK_FILES = 1 << 16
"""A task that plans its files itself reads so many entries of manifests at a time."""

Parts: TypeAlias = tuple[Any, ...]
"""One task reads these in order: they are parts of the source, shares of them, or groups of partitions."""


@dataclass(frozen=True, slots=True)
class _WeighedPart:
    part: Any
    weight: int


def plan_parts(scan: Scan) -> Sequence[Any]:
    """Plan the scan: return its parts, or of a table of very many files, which the driver only counts, the
    groups of partitions that tasks plan themselves. For the errors see `Scan.plan`.
    """
    return _groups(scan) or scan.plan()


def plan_partitions(
    scan: Scan, parallelism: Parallelism, planned: Sequence[Any] | None = None
) -> tuple[Parts, ...]:
    """Return what each task reads; there are no partitions without splits. `planned` is what `plan_parts`
    has returned, if the caller has it.

    With a limit all is read by one task, which stops there. For the errors see `Scan.plan`.
    """
    planned = plan_parts(scan) if planned is None else planned
    report_reads((scan,))
    parts = tuple(planned)
    if scan.limit is not None:
        return (parts,) if parts and scan.limit else ()
    if isinstance(scan.source, SnapshotRows) and not (parts and isinstance(parts[0], ScanFilter)):
        parts = _cut(scan, scan.source, parts, parallelism)
    return pack_parts(parts, parallelism.requested or parallelism.most)


def _groups(scan: Scan) -> tuple[ScanFilter, ...]:
    """Return the groups of partitions that tasks plan themselves; none for a table that the driver plans."""
    rows = without_resolved_blobs(scan.source)
    if not isinstance(rows, SnapshotRows) or scan.limit == 0:
        return ()
    where = scan.source.below(scan.where) if isinstance(scan.source, ResolvedBlobRows) else scan.where
    groups = tuple(rows.groups(where, TASK_FILES))
    return () if groups == (rows.where,) else groups


def _of_group(scan: Scan, group: ScanFilter) -> Scan:
    source = scan.source
    if isinstance(source, ResolvedBlobRows) and isinstance(source.source, SnapshotRows):
        return replace(scan, source=replace(source, source=replace(source.source, where=group)))
    if isinstance(source, SnapshotRows):
        return replace(scan, source=replace(source, where=group))
    raise TypeError(f"{type(source).__name__} is not read by groups")


def _cut(scan: Scan, rows: SnapshotRows, splits: Sequence[Split], parallelism: Parallelism) -> Parts:
    target = SplitPolicy.from_options(rows.context.schema.options).target_size
    requested = parallelism.requested
    if requested is not None:
        total = sum(split.size for split in splits)
        target = max(1, -(-total // requested)) if requested > len(splits) else target
    return tuple(share for split in splits for share in rows.cut(split, target, scan.where))


def pack_parts(parts: Sequence[Any], most: int) -> tuple[Parts, ...]:
    """Put neighbouring parts together until there are at most `most` groups of about equal size.

    The order of the parts is kept. Parts that are no splits count the same.
    """
    if len(parts) <= most:
        return tuple((part,) for part in parts)
    weighed = [_WeighedPart(part, max(1, getattr(part, "size", 1))) for part in parts]
    total = sum(one.weight for one in weighed)
    groups: list[list[Any]] = [[]]
    passed = 0
    for at, one in enumerate(weighed):
        is_full = passed * most >= total * len(groups)
        if groups[-1] and len(groups) < most and (is_full or len(parts) - at <= most - len(groups)):
            groups.append([])
        groups[-1].append(one.part)
        passed += one.weight
    return tuple(tuple(group) for group in groups)


def read_parts(scan: Scan, parts: Parts) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the parts, at most as many as the limit of the scan."""
    rows_left = scan.limit
    for part in parts:
        for batch in _read(scan, part):
            if rows_left is None:
                yield batch
                continue
            yield batch.slice(0, rows_left)
            rows_left -= min(rows_left, batch.num_rows)
            if rows_left == 0:
                return


def _read(scan: Scan, part: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(part, ScanFilter):
        group = _of_group(scan, part)
        return chain.from_iterable(map(group.read, group.plan()))
    if isinstance(part, SplitShare) and isinstance(scan.source, SnapshotRows):
        return scan.source.read_share(part, scan.columns, scan.where, kinds=False)
    return scan.read(part)
