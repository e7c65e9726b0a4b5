"""This module computes what a commit changes in each partition, as a server wants it (Java's
`PartitionStatistics`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakecore.clock import epoch_ms
from lakecore.metadata.listed_partitions import partition_texts
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore

__all__ = ["partition_statistics"]


def partition_statistics(manifests: ManifestStore, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return one mapping for each partition that the delta of `snapshot` names. Counts of removed files are
    negative; the time is that of the newest file, in milliseconds.

    It costs a read of the delta manifests.
    """
    entries = manifests.read(manifests.read_list(snapshot.delta_manifest_list))
    count = len(entries.partitions)
    sign = np.where(entries.kind == EntryKind.DELETE, -1, 1)

    def total(values: Any) -> list[int]:
        out = np.zeros(count, np.int64)
        np.add.at(out, entries.partition, sign * values)
        return [int(one) for one in out]

    rows, sizes, files = total(entries.row_count), total(entries.file_size), total(1)
    newest, buckets = entries.newest(), np.zeros(count, np.int64)
    buckets[entries.partition] = entries.total_buckets
    return [
        {
            "spec": spec,
            "recordCount": rows[at],
            "fileSizeInBytes": sizes[at],
            "fileCount": files[at],
            "lastFileCreationTime": epoch_ms(int(newest[at])) if newest[at] > 0 else 0,
            "totalBuckets": int(buckets[at]),
        }
        for at, spec in enumerate(partition_texts(entries.partitions, manifests.schema))
    ]
