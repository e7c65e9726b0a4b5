"""This module compares the bucket counts of the files of a partition: if they differ, rows of a key may be in
two buckets, and reads return both. So may rows that wait for a bucket in a table with fixed buckets.

This happens when a partition was rescaled, or the option `bucket` changed, and a writer of Java continued
with another count: it refuses only buckets that have files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import POSTPONE_BUCKET, BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import TablePaths
from lakecore.verify.fsck.findings import FindingKind, Findings

__all__ = ["BucketCounts"]


@dataclass(slots=True)
class BucketCounts:
    """It has the bucket counts of the latest snapshot of each branch, over all passes. `directory` returns
    the directory of a bucket. `waiting` are partitions with rows that wait for a bucket, and the number of
    buckets that their table has. It takes some 300 bytes a partition.
    """

    findings: Findings
    directory: Callable[[bytes, int], str]
    counts: dict[tuple[str, bytes], set[int]] = field(default_factory=dict)
    waiting: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def add(self, paths: TablePaths, schema: TableSchema, live: ManifestEntries) -> None:
        """Add the live files that a pass has of one branch. Tables without a key have no row twice."""
        options = TableOptions.from_schema(schema)
        if not schema.primary_keys or options.bucket_mode is not BucketMode.HASH_FIXED:
            return
        pairs = np.stack((live.partition, live.total_buckets), axis=1)[live.bucket >= 0]
        for code, total in np.unique(pairs, axis=0).tolist():
            self.counts.setdefault((paths.root, live.partitions[code]), set()).add(total)
        for code in np.unique(live.partition[live.bucket == POSTPONE_BUCKET]).tolist():
            self.waiting[paths.root, live.partitions[code]] = options.bucket

    def report(self) -> None:
        """Add partitions that have more than one bucket count, or rows without a bucket, to the findings."""
        for (_, partition), totals in self.counts.items():
            if len(totals) == 1:
                continue
            both = " and of ".join(map(str, sorted(totals)))
            self._add(
                partition,
                0,
                f"its files are of {both} buckets, so that rows of one key may be in two buckets and be read "
                "twice",
            )
        for (_, partition), total in self.waiting.items():
            self._add(
                partition,
                POSTPONE_BUCKET,
                f"its rows wait for a bucket, but the table has bucket={total}, so that they never get one "
                "and are read beside other rows of their keys",
            )

    def _add(self, partition: bytes, bucket: int, problem: str) -> None:
        with suppress(CorruptDataError):  # the values of the partition are damaged: that is a finding
            place = self.directory(partition, bucket)
            path = place if bucket == POSTPONE_BUCKET else place.rpartition("/")[0]
            self.findings.add(FindingKind.BUCKETS, path, problem)
