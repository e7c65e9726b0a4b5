"""This module has `$files` and `$file_key_ranges`: the live data files of a snapshot. They cost some 100 us
per file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.columns.cast import cast_atomic
from lakecore.read.context import ReadContext
from lakecore.read.source.readable import Readable
from lakecore.row.binary_row import decode_row
from lakecore.row.values import array_values, values_array
from lakecore.system.columns import columns
from lakecore.system.text import MILLI_NANOS, bracketed, raw_text, serialized_row_text
from lakecore.system.view import Listing, Row
from lakecore.types.datatypes import AtomicType, DataField, RowType, with_nullable

__all__ = ["FILES", "FILE_KEY_RANGES"]

_KEY_RANGE = (
    "partition STRING",
    "bucket INT NOT NULL",
    "file_path STRING NOT NULL",
    "file_format STRING NOT NULL",
    "schema_id BIGINT NOT NULL",
    "level INT NOT NULL",
    "record_count BIGINT NOT NULL",
    "file_size_in_bytes BIGINT NOT NULL",
    "min_key STRING",
    "max_key STRING",
)


@dataclass(frozen=True)
class _Files:
    """The live files of a snapshot, described by its schema."""

    table: Readable
    snapshot: Snapshot

    @cached_property
    def context(self) -> ReadContext:
        return self.table._read_context()

    def __iter__(self) -> Iterator[ManifestEntry]:
        entries = self.table._scanner.live_entries(self.snapshot)
        return iter(entries.select(entries.bucket >= 0))

    def key_range(self, entry: ManifestEntry) -> Row:
        file = entry.file
        schema = self.context.schema
        return (
            serialized_row_text(entry.partition, schema.partition_type, file.file_name),
            entry.bucket,
            file.external_path or self.context.data_path(entry.partition, entry.bucket, file),
            file.file_name.rpartition(".")[2],
            file.schema_id,
            file.level,
            file.row_count,
            file.file_size,
            self._key(file, file.min_key),
            self._key(file, file.max_key),
        )

    def _key(self, file: DataFile, key: bytes) -> str | None:
        if _arity(key) == 0:
            return None
        key_type = self.context.file_schema(file.schema_id).key_type
        return bracketed(map(raw_text, decode_row(key, key_type, file.file_name), (f.type for f in key_type)))


def _key_ranges(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    files = _Files(table, snapshot)
    for entry in files:
        yield (*files.key_range(entry), entry.file.first_row_id)


FILE_KEY_RANGES = Listing(columns(*_KEY_RANGE, "first_row_id BIGINT"), _key_ranges, dated=True)


def _all_of_files(table: Readable, snapshot: Snapshot | None) -> Iterator[Row]:
    if snapshot is None:
        return
    files = _Files(table, snapshot)
    for entry in files:
        file = entry.file
        counts, low, high = _value_stats(files.context, file)
        yield (
            *files.key_range(entry),
            _braced_text(counts),
            _braced_text(low),
            _braced_text(high),
            file.min_sequence_number,
            file.max_sequence_number,
            None if file.creation_time is None else file.creation_time * MILLI_NANOS,
            file.delete_row_count,
            None if file.file_source is None else file.file_source.name,
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )


FILES = Listing(
    columns(
        *_KEY_RANGE,
        "null_value_counts STRING NOT NULL",
        "min_value_stats STRING NOT NULL",
        "max_value_stats STRING NOT NULL",
        "min_sequence_number BIGINT",
        "max_sequence_number BIGINT",
        "creation_time TIMESTAMP(3)",
        "deleteRowCount BIGINT",
        "file_source STRING",
        "first_row_id BIGINT",
        "write_cols STRING[]",
    ),
    _all_of_files,
    dated=True,
)


def _value_stats(ctx: ReadContext, file: DataFile) -> tuple[Mapping[str, str], ...]:
    """Return null counts, minima and maxima of the columns of that schema, as texts.

    Rule of the format: a column that the file does not have is all null; one without statistics is unknown.
    """
    schema = ctx.file_schema(file.schema_id)
    stats = file.value_stats
    if file.value_stats_cols is None and not _arity(stats.min_values) and schema.id == ctx.schema.id:
        return {}, {}, {}
    stored = _stored_columns(schema, file)
    lows, highs = (decode_row(row, stored, file.file_name) for row in (stats.min_values, stats.max_values))
    places = {field.id: place for place, field in enumerate(stored.fields)}
    field_ids = {
        field.id for field in schema.fields if file.write_cols is None or field.name in file.write_cols
    }
    counts: dict[str, str] = {}
    bounds: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for field in ctx.schema.fields:
        place = places.get(field.id)
        counts[field.name] = _count(
            stats.null_counts, place, None if field.id in field_ids else file.row_count
        )
        for values, texts in zip((lows, highs), bounds, strict=True):
            value = None if place is None else _convert(values[place], stored.fields[place], field)
            texts[field.name] = raw_text(value, field.type)
    return counts, *bounds


def _stored_columns(schema: TableSchema, file: DataFile) -> RowType:
    """Return the columns of the statistics, as many as there are."""
    written = schema.row_type.names if file.write_cols is None else file.write_cols
    names = written if file.value_stats_cols is None else file.value_stats_cols
    there = tuple(name for name in names if name in schema.row_type.names)
    return schema.row_type.select(there[: _arity(file.value_stats.min_values)])


def _count(counts: tuple[int | None, ...], place: int | None, missing: int | None) -> str:
    count = missing if place is None else counts[place] if place < len(counts) else None
    return "null" if count is None else str(count)


def _convert(value: Any, old: DataField, new: DataField) -> Any:
    """Convert a bound to the type that the column has in that schema."""
    same = with_nullable(old.type, True) == with_nullable(new.type, True)
    if value is None or same or not isinstance(old.type, AtomicType) or not isinstance(new.type, AtomicType):
        return value
    return array_values(cast_atomic(values_array([value], old.type), old.type, new.type), new.type)[0]


def _braced_text(texts: Mapping[str, str]) -> str:
    """Return `{a=1, b=null}`, by name."""
    return "{" + ", ".join(f"{name}={texts[name]}" for name in sorted(texts)) + "}"


def _arity(row: bytes) -> int:
    return int(struct.unpack_from(">i", row)[0]) if len(row) >= 4 else 0
