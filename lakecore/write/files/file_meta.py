"""This module computes the manifest metadata of a finished file: row counts, key bounds, sequence numbers,
statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.format.data_writer import WrittenFile
from lakecore.format.statistics import DENSE_STORE, key_modes, simple_stats, stats_modes
from lakecore.metadata.key_value import key_fields
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats
from lakecore.metadata.options import THIN_MODE
from lakecore.metadata.row_kind import KEY_PREFIX, KIND_NAME, SEQUENCE_NAME, is_retract
from lakecore.row.binary_row import encode_row
from lakecore.row.values import array_values
from lakecore.types.datatypes import RowType

if TYPE_CHECKING:
    from lakecore.write.files.rolling import FileSpec

__all__ = ["FileSummary", "data_file", "serialised_key"]


class FileSummary:
    """It counts over the rows of one file, in their order. `key_type` is that of its bounds; None means an
    append file.
    """

    __slots__ = ("_first", "_key_type", "_last", "delete_count", "max_sequence", "min_sequence", "row_count")

    def __init__(self, key_type: RowType | None, first_sequence: int = 0) -> None:
        self._key_type = key_type
        self._first: pa.RecordBatch | bytes | None = None
        self._last: pa.RecordBatch | bytes | None = None
        self.row_count = 0
        self.delete_count = 0
        self.min_sequence: int | None = None if key_type else first_sequence
        self.max_sequence: int | None = None if key_type else first_sequence - 1

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with at least one row. Key-value batches carry sequence and kind; a key column that
        they lack is taken from the value column of that name.
        """
        if self._key_type is None:
            self._count(batch.num_rows)
            return
        self.row_count += batch.num_rows
        numbers = batch.column(SEQUENCE_NAME).to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        self._widen(low, high)
        self.delete_count += int(is_retract(batch.column(KIND_NAME).to_numpy()).sum())
        keys = batch.select(_key_columns(batch, self._key_type))
        if self._first is None:
            self._first = keys.slice(0, 1)
        self._last = keys.slice(batch.num_rows - 1, 1)

    def add_file(self, file: DataFile) -> None:
        """Count the rows of a file, as its description has them. Its keys follow those so far."""
        if self._key_type is None:
            self._count(file.row_count)
            return
        self.row_count += file.row_count
        self.delete_count += file.delete_row_count or 0
        self._widen(file.min_sequence_number, file.max_sequence_number)
        self._first = file.min_key if self._first is None else self._first
        self._last = file.max_key

    def join(self, other: FileSummary) -> None:
        """Count the rows that another summary counts. Their keys follow those so far."""
        if self._key_type is None or other.min_sequence is None or other.max_sequence is None:
            self._count(other.row_count)
            return
        self.row_count += other.row_count
        self.delete_count += other.delete_count
        self._widen(other.min_sequence, other.max_sequence)
        self._first = other._first if self._first is None else self._first
        self._last = other._last

    @property
    def key_bounds(self) -> tuple[bytes, bytes]:
        """Return the serialised keys of the first and the last row; empty rows for append files."""
        if self._key_type is None or self._first is None or self._last is None:
            return EMPTY_ROW, EMPTY_ROW
        return _key_bytes(self._first, self._key_type), _key_bytes(self._last, self._key_type)

    def _count(self, rows: int) -> None:
        """Count rows of an append file, whose numbers follow each other."""
        self.row_count += rows
        if self.max_sequence is not None:
            self.max_sequence += rows

    def _widen(self, low: int, high: int) -> None:
        self.min_sequence = low if self.min_sequence is None else min(low, self.min_sequence)
        self.max_sequence = high if self.max_sequence is None else max(high, self.max_sequence)


def _key_bytes(key: pa.RecordBatch | bytes, key_type: RowType) -> bytes:
    return key if isinstance(key, bytes) else serialised_key(key, key_type)


def _key_columns(batch: pa.RecordBatch, key_type: RowType) -> list[str]:
    present = set(batch.schema.names)
    return [KEY_PREFIX + name if KEY_PREFIX + name in present else name for name in key_type.names]


def serialised_key(row: pa.RecordBatch, key_type: RowType) -> bytes:
    """Serialise the one row of `row`, whose columns are those of `key_type` in order."""
    values = [array_values(row.column(i), field.type)[0] for i, field in enumerate(key_type.fields)]
    return encode_row(values, key_type)


def data_file(
    spec: FileSpec, name: str, written: WrittenFile, summary: FileSummary, creation_time: int
) -> DataFile:
    """Describe a finished file that has at least one row."""
    value_stats, columns = _value_stats(spec, written)
    min_key, max_key = summary.key_bounds
    return DataFile(
        file_name=name,
        file_size=written.size,
        row_count=written.rows,
        min_key=min_key,
        max_key=max_key,
        key_stats=_key_stats(spec, written) if spec.keyed else EMPTY_STATS,
        value_stats=value_stats,
        min_sequence_number=_require(summary.min_sequence),
        max_sequence_number=_require(summary.max_sequence),
        schema_id=spec.schema.id,
        level=spec.level,
        creation_time=creation_time,
        delete_row_count=summary.delete_count,
        file_source=spec.source,
        value_stats_cols=columns,
        write_cols=spec.row_type.names if spec.tracked else spec.columns,
        external_path=spec.external_path(name),
    )


def _value_stats(spec: FileSpec, written: WrittenFile) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Compute statistics. Rule of the format: columns of a key are kept as keys where they are the only copy,
    but not in avro.
    """
    schema, rules = spec.schema, spec.rules
    thin = spec.keyed and THIN_MODE.read(spec.options) and rules.format != "avro"
    thin_keys = schema.trimmed_primary_keys if thin else ()
    modes = stats_modes(spec.value_type, spec.options, rules.stats_mode, thin_keys=thin_keys)
    dense = DENSE_STORE.read(spec.options)
    return simple_stats(written.column_bounds, spec.value_type, modes, dense=dense)


def _key_stats(spec: FileSpec, written: WrittenFile) -> SimpleStats:
    rules, thin = spec.rules, THIN_MODE.read(spec.options)
    modes = key_modes(spec.schema.key_type, spec.options, rules.stats_mode, rules.format, thin=thin)
    stats, _ = simple_stats(written.column_bounds, RowType(key_fields(spec.schema)), modes, dense=False)
    return stats


def _require(number: int | None) -> int:
    if number is None:
        raise ValueError("a file without rows has no sequence numbers")
    return number
