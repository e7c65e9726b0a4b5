"""This module has `$snapshots`, `$schemas`, `$options`, `$aggregation_fields`, `$statistics`: the history and
state of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakecore.errors import CorruptDataError, reason
from lakecore.metadata.json_record import json_object
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.source.readable import Readable
from lakecore.system.columns import columns
from lakecore.system.text import MILLI_NANOS, bracketed, flat_json, pretty_json
from lakecore.system.view import Listing, Row
from lakecore.types.sql import type_text

__all__ = ["AGGREGATION_FIELDS", "OPTIONS", "SCHEMAS", "SNAPSHOTS", "STATISTICS"]


def _snapshots(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    for snapshot_id in table._stores.snapshots.list_ids():
        snapshot = table._stores.snapshots.find(snapshot_id)
        if snapshot is not None:
            yield (
                snapshot.id,
                snapshot.schema_id,
                snapshot.commit_user,
                snapshot.commit_identifier,
                snapshot.commit_kind.value,
                snapshot.time_millis * MILLI_NANOS,
                snapshot.base_manifest_list,
                snapshot.delta_manifest_list,
                snapshot.changelog_manifest_list,
                snapshot.total_record_count,
                snapshot.delta_record_count,
                snapshot.changelog_record_count,
                snapshot.watermark,
                snapshot.next_row_id,
                snapshot.operation,
            )


SNAPSHOTS = Listing(
    columns(
        "snapshot_id BIGINT NOT NULL",
        "schema_id BIGINT NOT NULL",
        "commit_user STRING NOT NULL",
        "commit_identifier BIGINT NOT NULL",
        "commit_kind STRING NOT NULL",
        "commit_time TIMESTAMP(3) NOT NULL",
        "base_manifest_list STRING NOT NULL",
        "delta_manifest_list STRING NOT NULL",
        "changelog_manifest_list STRING",
        "total_record_count BIGINT",
        "delta_record_count BIGINT",
        "changelog_record_count BIGINT",
        "watermark BIGINT",
        "next_row_id BIGINT",
        "operation STRING",
    ),
    _snapshots,
)


def _schemas(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    for schema_id in table._stores.schemas.list_ids():
        schema = table._stores.schemas.load(schema_id)
        yield (
            schema.id,
            flat_json([field.to_json() for field in schema.fields]),
            flat_json(schema.partition_keys),
            flat_json(schema.primary_keys),
            flat_json(schema.options),
            schema.comment,
            schema.time_millis * MILLI_NANOS,
        )


SCHEMAS = Listing(
    columns(
        "schema_id BIGINT NOT NULL",
        "fields STRING NOT NULL",
        "partition_keys STRING NOT NULL",
        "primary_keys STRING NOT NULL",
        "options STRING NOT NULL",
        "comment STRING",
        "update_time TIMESTAMP(3) NOT NULL",
    ),
    _schemas,
)


def _latest(table: Readable) -> TableSchema:
    """Return the latest schema as it is stored, without options of the handle."""
    return table._stores.schemas.latest() or table.schema


def _options(table: Readable, _: Snapshot | None) -> Iterable[Row]:
    return _latest(table).options.items()


OPTIONS = Listing(columns("key STRING NOT NULL", "value STRING NOT NULL"), _options)


def _aggregation_fields(table: Readable, _: Snapshot | None) -> Iterator[Row]:
    schema = _latest(table)
    by_field: dict[str, list[tuple[str, str]]] = {}
    for key, value in schema.options.items():
        prefix, *parts = key.split(".")
        if prefix == "fields" and len(parts) > 1:
            by_field.setdefault(parts[0], []).append((key, value))
    for field in schema.fields:
        functions = by_field.get(field.name, ())
        yield (
            field.name,
            type_text(field.type, quoted=True),
            bracketed(value for _, value in functions),
            bracketed(key for key, _ in functions),
            field.description,
        )


AGGREGATION_FIELDS = Listing(
    columns(
        "field_name STRING NOT NULL",
        "field_type STRING NOT NULL",
        "function STRING",
        "function_options STRING",
        "comment STRING",
    ),
    _aggregation_fields,
)


def _statistics(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    """List the statistics that the snapshot has, or took over from the one before."""
    if snapshot is None or snapshot.statistics is None:
        return
    path = table._stores.paths.statistics(snapshot.statistics)
    try:
        raw = json_object(table._stores.file_io.read(path))
        yield (
            int(raw["snapshotId"]),
            int(raw["schemaId"]),
            raw.get("mergedRecordCount"),
            raw.get("mergedRecordSize"),
            pretty_json(raw.get("colStats") or {}),
        )
    except (ValueError, KeyError, TypeError) as err:
        raise CorruptDataError(path, f"not statistics: {reason(err)}") from err


STATISTICS = Listing(
    columns(
        "snapshot_id BIGINT NOT NULL",
        "schema_id BIGINT NOT NULL",
        "mergedRecordCount BIGINT",
        "mergedRecordSize BIGINT",
        "colstat STRING",
    ),
    _statistics,
)
