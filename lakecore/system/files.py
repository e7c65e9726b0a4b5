"""This module has `$files` and `$file_key_ranges`: the live data files of a snapshot. They cost some 70 us
per file: types and places are worked out once for all files that have the same columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.columns.cast import cast_atomic
from lakecore.read.context import ReadContext
from lakecore.read.source.readable import Readable
from lakecore.row.binary_row import decode_row, row_decoder
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

    @cached_property
    def _partitions(self) -> dict[bytes, str]:
        """Return the partitions so far as text, by their bytes."""
        return {}

    @cached_property
    def _directories(self) -> dict[tuple[bytes, int], str]:
        """Return the directories of buckets so far."""
        return {}

    @cached_property
    def _stats(self) -> dict[_StatsKey, _StatsColumns]:
        """Return the columns of statistics so far."""
        return {}

    def stats(self, file: DataFile) -> tuple[str, str, str]:
        """Return null counts, minima and maxima of a file as texts. Raises CorruptDataError."""
        key = file.schema_id, file.write_cols, file.value_stats_cols, _arity(file.value_stats.min_values)
        columns = self._stats.get(key)
        if columns is None:
            columns = self._stats[key] = _StatsColumns.of(self.context, file)
        return columns.texts(file)

    def __iter__(self) -> Iterator[ManifestEntry]:
        entries = self.table._scanner.live_entries(self.snapshot)
        return iter(entries.select(entries.bucket >= 0))

    def key_range(self, entry: ManifestEntry) -> Row:
        file = entry.file
        return (
            self._partition(entry),
            entry.bucket,
            file.external_path or self.context.paths.data_file(self._directory(entry), file),
            file.file_name.rpartition(".")[2],
            file.schema_id,
            file.level,
            file.row_count,
            file.file_size,
            self._key(file, file.min_key),
            self._key(file, file.max_key),
        )

    def _partition(self, entry: ManifestEntry) -> str:
        text = self._partitions.get(entry.partition)
        if text is None:
            text = serialized_row_text(
                entry.partition, self.context.schema.partition_type, entry.file.file_name
            )
            self._partitions[entry.partition] = text
        return text

    def _directory(self, entry: ManifestEntry) -> str:
        place = entry.partition, entry.bucket
        directory = self._directories.get(place)
        if directory is None:
            directory = self._directories[place] = self.context.bucket_dir(*place)
        return directory

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
        yield (
            *files.key_range(entry),
            *files.stats(file),
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


_StatsKey = tuple[int, tuple[str, ...] | None, tuple[str, ...] | None, int]
"""These are what the columns of statistics depend on: schema, written columns, columns with statistics and
their number.
"""


@dataclass(frozen=True, slots=True)
class _StatsColumn:
    """This is a column of the snapshot's schema. `place` is that of its statistics, None if there are none;
    `stored` is the column as the file has it. With `absent` the file has no such column.
    """

    field: DataField
    place: int | None
    stored: DataField | None
    absent: bool

    def count(self, file: DataFile) -> str:
        counts, place = file.value_stats.null_counts, self.place
        missing = file.row_count if self.absent else None
        count = missing if place is None else counts[place] if place < len(counts) else None
        return "null" if count is None else str(count)

    def bound(self, values: Sequence[Any]) -> str:
        value = None if self.place is None else values[self.place]
        if value is not None and self.stored is not None:
            value = _convert(value, self.stored, self.field)
        return raw_text(value, self.field.type)


@dataclass(frozen=True, slots=True)
class _StatsColumns:
    """These are the columns of the statistics of files that were written alike, in the order of their names.

    Rule of the format: a column that the file does not have is all null; one without statistics is unknown.
    """

    decode: Callable[[bytes], tuple[Any, ...]]
    columns: tuple[_StatsColumn, ...]

    @classmethod
    def of(cls, ctx: ReadContext, file: DataFile) -> _StatsColumns:
        schema = ctx.file_schema(file.schema_id)
        arity = _arity(file.value_stats.min_values)
        stored = _stored_columns(schema, file)
        none = file.value_stats_cols is None and not arity and schema.id == ctx.schema.id
        fields = () if none else sorted(ctx.schema.fields, key=lambda field: field.name)
        places = {field.id: place for place, field in enumerate(stored.fields)}
        written = {
            field.id for field in schema.fields if file.write_cols is None or field.name in file.write_cols
        }
        columns = tuple(cls._column(field, places, stored, written) for field in fields)
        return cls(row_decoder(stored), columns)

    @staticmethod
    def _column(
        field: DataField, places: Mapping[int, int], stored: RowType, written: Collection[int]
    ) -> _StatsColumn:
        place = places.get(field.id)
        old = None if place is None else stored.fields[place]
        same = old is None or with_nullable(old.type, True) == with_nullable(field.type, True)
        return _StatsColumn(field, place, None if same else old, field.id not in written)

    def texts(self, file: DataFile) -> tuple[str, str, str]:
        """Return null counts, minima and maxima of a file. Raises CorruptDataError naming the file."""
        stats, columns = file.value_stats, self.columns
        if not columns:
            return "{}", "{}", "{}"
        try:
            low, high = self.decode(stats.min_values), self.decode(stats.max_values)
        except CorruptDataError as err:
            raise CorruptDataError(file.file_name, err.problem) from err
        return (
            _braced_text(columns, [column.count(file) for column in columns]),
            _braced_text(columns, [column.bound(low) for column in columns]),
            _braced_text(columns, [column.bound(high) for column in columns]),
        )


def _stored_columns(schema: TableSchema, file: DataFile) -> RowType:
    """Return the columns of the statistics, as many as there are."""
    written = schema.row_type.names if file.write_cols is None else file.write_cols
    names = written if file.value_stats_cols is None else file.value_stats_cols
    there = tuple(name for name in names if name in schema.row_type.names)
    return schema.row_type.select(there[: _arity(file.value_stats.min_values)])


def _convert(value: Any, old: DataField, new: DataField) -> Any:
    """Convert a bound to the type that the column has in that schema, which is another one."""
    if not isinstance(old.type, AtomicType) or not isinstance(new.type, AtomicType):
        return value
    return array_values(cast_atomic(values_array([value], old.type), old.type, new.type), new.type)[0]


def _braced_text(columns: Iterable[_StatsColumn], texts: Iterable[str]) -> str:
    """Return `{a=1, b=null}`."""
    parts = zip(columns, texts, strict=True)
    return "{" + ", ".join(f"{column.field.name}={text}" for column, text in parts) + "}"


def _arity(row: bytes) -> int:
    return int(struct.unpack_from(">i", row)[0]) if len(row) >= 4 else 0
