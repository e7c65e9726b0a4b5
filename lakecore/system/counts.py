"""This module has `$manifests`, `$partitions`, `$buckets`, `$table_indexes`: the contents of a snapshot,
before merging.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.index_file import DELETION_VECTORS
from lakecore.metadata.options import POSTPONE_BUCKET
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.readable import Readable
from lakecore.row.binary_row import decode_row
from lakecore.system.columns import columns
from lakecore.system.text import MILLI_NANOS, row_text, serialized_row_text
from lakecore.system.view import Listing, Row
from lakecore.types.datatypes import ArrayType, DataField, RowType
from lakecore.types.text import value_text

__all__ = ["BUCKETS", "MANIFESTS", "PARTITIONS", "TABLE_INDEXES", "partition_counts"]


def _manifests(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    partition_type = table.schema.partition_type
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    for name in filter(None, lists):
        for file in table._stores.manifests.read_list(name):
            stats = file.partition_stats
            yield (
                file.file_name,
                file.file_size,
                file.num_added_files,
                file.num_deleted_files,
                file.schema_id,
                serialized_row_text(stats.min_values, partition_type, file.file_name),
                serialized_row_text(stats.max_values, partition_type, file.file_name),
                file.min_row_id,
                file.max_row_id,
            )


MANIFESTS = Listing(
    columns(
        "file_name STRING NOT NULL",
        "file_size BIGINT NOT NULL",
        "num_added_files BIGINT NOT NULL",
        "num_deleted_files BIGINT NOT NULL",
        "schema_id BIGINT NOT NULL",
        "min_partition_stats STRING",
        "max_partition_stats STRING",
        "min_row_id BIGINT",
        "max_row_id BIGINT",
    ),
    _manifests,
)


@dataclass(frozen=True, slots=True)
class _Count:
    """Sums over entries."""

    rows: int
    size: int
    files: int
    newest: int
    """This is the creation time of the newest file that any entry names, in milliseconds."""
    total_buckets: int
    """This is the bucket count of the last entry."""


def _count(
    table: Readable, snapshot: Snapshot, *, by_bucket: bool, lowest_bucket: int = 0
) -> dict[tuple[bytes, int], _Count]:
    """Count by partition, and bucket (-1 for all). Rule of the format: deleted files count for `newest`, too.

    Cost: a plan, and some 1 us an entry.
    """
    manifests = table._stores.manifests_for_plans
    entries = manifests.read(manifests.data_manifests(snapshot))
    entries = entries.select(entries.bucket >= lowest_bucket)
    bucket = entries.bucket if by_bucket else np.full(len(entries), -1)
    places = np.stack([entries.partition, bucket], axis=1).astype(np.int64)
    counts, first, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    sign = np.where(entries.kind == EntryKind.ADD.value, 1, -1)
    sums = np.zeros((len(counts), 4), np.int64)
    for column, values in enumerate((sign * entries.row_count, sign * entries.file_size, sign)):
        np.add.at(sums[:, column], group, values)
    np.maximum.at(sums[:, 3], group, np.maximum(entries.times(), 0))
    last = np.zeros(len(counts), np.int64)
    last[group] = np.arange(len(entries))
    out: dict[tuple[bytes, int], _Count] = {}
    for n in np.argsort(first).tolist():
        rows, size, files, newest = sums[n].tolist()
        if files > 0:
            code, bucket_id = counts[n].tolist()
            total = int(entries.total_buckets[last[n]])
            out[entries.partitions[code], bucket_id] = _Count(rows, size, files, newest, total)
    return out


def partition_counts(table: Readable, snapshot: Snapshot) -> dict[bytes, _Count]:
    """Count by partition, including files of level 0 that a batch read may skip: a partition exists from its
    first file on.
    """
    counts = _count(table, snapshot, by_bucket=False)
    return {partition: count for (partition, _), count in counts.items()}


def _partitions(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    partition_type, default = table.schema.partition_type, table.options.partition_default_name
    deleted = _deleted_rows(table, snapshot)
    rows = []
    for partition, count in partition_counts(table, snapshot).items():
        values = zip(decode_row(partition, partition_type), partition_type.fields, strict=True)
        texts = (f"{field.name}={_named_value(value, field, default)}" for value, field in values)
        rows.append((
            "/".join(texts), count.rows, count.size, count.files, count.newest * MILLI_NANOS,
            None, None, None, None, count.total_buckets, False, deleted.get(partition, 0),
        ))  # fmt: skip
    yield from sorted(rows, key=lambda row: str(row[0]))


def _named_value(value: Any, field: DataField, default: str) -> str:
    """Return the partition value as text: null and blank values share the default name, as they share a
    directory.
    """
    text = "" if value is None else value_text(value, field.type)
    return text if text.strip() else default


def _deleted_rows(table: Readable, snapshot: Snapshot) -> dict[bytes, int | None]:
    """Count the rows that deletion vectors hide, by partition; None where one does not record it."""
    out: dict[bytes, int | None] = {}
    for file in table._scanner.index_files(snapshot) if table.options.deletion_vectors else ():
        for place in file.deletions:
            count = out.get(file.partition, 0)
            more = place.cardinality
            out[file.partition] = None if count is None or more is None else count + more
    return out


PARTITIONS = Listing(
    columns(
        "partition STRING",
        "record_count BIGINT NOT NULL",
        "file_size_in_bytes BIGINT NOT NULL",
        "file_count BIGINT NOT NULL",
        "last_update_time TIMESTAMP(3)",
        "created_at TIMESTAMP(3)",
        "created_by STRING",
        "updated_by STRING",
        "options STRING",
        "total_buckets INT NOT NULL",
        "done BOOLEAN NOT NULL",
        "deleted_record_count BIGINT",
    ),
    _partitions,
)


def _buckets(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    partition_type = table.schema.partition_type
    counts = _count(table, snapshot, by_bucket=True, lowest_bucket=POSTPONE_BUCKET).items()
    rows = [
        (
            row_text(decode_row(partition, partition_type), partition_type),
            bucket,
            count.rows,
            count.size,
            count.files,
            count.newest * MILLI_NANOS,
        )
        for (partition, bucket), count in counts
    ]
    yield from sorted(rows)


BUCKETS = Listing(
    columns(
        "partition STRING",
        "bucket INT NOT NULL",
        "record_count BIGINT NOT NULL",
        "file_size_in_bytes BIGINT NOT NULL",
        "file_count BIGINT NOT NULL",
        "last_update_time TIMESTAMP(3)",
    ),
    _buckets,
)


def _table_indexes(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    partition_type = table.schema.partition_type
    names = {field.id: field.name for field in table.schema.fields}
    for file in table._scanner.index_files(snapshot):
        ranges = [
            (place.data_file, place.offset, place.length, place.cardinality) for place in file.deletions
        ]
        of_rows = file.global_index
        yield (
            serialized_row_text(file.partition, partition_type, file.file_name),
            file.bucket,
            file.index_type,
            file.file_name,
            file.file_size,
            file.row_count,
            ranges if file.index_type == DELETION_VECTORS else None,
            None if of_rows is None else of_rows.first,
            None if of_rows is None else of_rows.last,
            None if of_rows is None else of_rows.field_id,
            None
            if of_rows is None
            else _field_names(names, (of_rows.field_id, *(of_rows.extra_field_ids or ()))),
        )


def _field_names(names: dict[int, str], ids: tuple[int, ...]) -> str:
    return ",".join(names.get(field_id, str(field_id)) for field_id in ids)


_RANGES = ArrayType(
    columns("f0 STRING NOT NULL", "f1 INT NOT NULL", "f2 INT NOT NULL", "_CARDINALITY BIGINT")
)
_INDEX = columns(
    "partition STRING",
    "bucket INT NOT NULL",
    "index_type STRING NOT NULL",
    "file_name STRING NOT NULL",
    "file_size BIGINT NOT NULL",
    "row_count BIGINT NOT NULL",
)
_GLOBAL = columns(
    "row_range_start BIGINT", "row_range_end BIGINT", "index_field_id INT", "index_field_name STRING"
)
_LATER = tuple(replace(field, id=7 + field.id) for field in _GLOBAL)
TABLE_INDEXES = Listing(
    RowType((*_INDEX.fields, DataField(6, "dv_ranges", _RANGES), *_LATER)), _table_indexes
)
