"""Values with defaults: a test states only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, EntryKind, FileSource, ManifestEntry
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.row.binary_row import encode_row
from lakecore.types.datatypes import DataField

__all__ = ["commit_message", "data_file", "manifest_entry", "snapshot", "table_schema"]


def table_schema(
    columns: str = "k BIGINT NOT NULL, v INT",
    *,
    primary_keys: tuple[str, ...] = ("k",),
    partition_keys: tuple[str, ...] = (),
    options: Mapping[str, str] | None = None,
    schema_id: int = 0,
) -> TableSchema:
    """Column ids follow the order; types are atomic."""
    fields = tuple(
        DataField.from_json({"id": i, "name": name, "type": kind})
        for i, (name, kind) in enumerate(column.strip().split(" ", 1) for column in columns.split(","))
    )
    return TableSchema(
        id=schema_id,
        fields=fields,
        highest_field_id=len(fields) - 1,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options={"bucket": "1", **(options or {})},
    )


def data_file(
    name: str,
    *,
    schema: TableSchema | None = None,
    keys: tuple[Any, Any] | None = None,
    level: int = 0,
    rows: int = 10,
    size: int = 100,
    sequence: tuple[int, int] = (0, 9),
) -> DataFile:
    """`keys`: lowest and highest value of a key of one column; by default 0 and 9 above level 0."""
    low, high = (EMPTY_ROW, EMPTY_ROW)
    if keys is None and level > 0:
        keys = (0, 9)
    if keys is not None:
        key_type = (schema or table_schema()).key_type
        low, high = (encode_row((key,), key_type) for key in keys)
    return DataFile(
        file_name=name,
        file_size=size,
        row_count=rows,
        min_key=low,
        max_key=high,
        min_sequence_number=sequence[0],
        max_sequence_number=sequence[1],
        schema_id=0,
        level=level,
        delete_row_count=0,
        creation_time=1_700_000_000_000,
        file_source=FileSource.APPEND,
    )


def manifest_entry(
    file: DataFile,
    *,
    kind: EntryKind = EntryKind.ADD,
    partition: bytes = EMPTY_ROW,
    bucket: int = 0,
    total_buckets: int = 1,
) -> ManifestEntry:
    return ManifestEntry(
        kind=kind, partition=partition, bucket=bucket, total_buckets=total_buckets, file=file
    )


def commit_message(
    *new_files: DataFile,
    partition: bytes = EMPTY_ROW,
    bucket: int = 0,
    total_buckets: int = 1,
    **parts: tuple[DataFile, ...],
) -> CommitMessage:
    return CommitMessage(
        partition=partition, bucket=bucket, total_buckets=total_buckets, new_files=new_files, **parts
    )


def snapshot(snapshot_id: int, **fields: Any) -> Snapshot:
    """An APPEND by user `u`; identifier and time are the id."""
    defaults: dict[str, Any] = {
        "schema_id": 0,
        "base_manifest_list": "base",
        "delta_manifest_list": "delta",
        "commit_user": "u",
        "commit_identifier": snapshot_id,
        "commit_kind": CommitKind.APPEND,
        "time_millis": snapshot_id,
    }
    return Snapshot(id=snapshot_id, **{**defaults, **fields})
