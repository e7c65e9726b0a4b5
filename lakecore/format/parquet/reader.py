"""This module reads Parquet data files with one thread and buffered column streams, instead of whole row
groups in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.parquet import int96 as parquet_int96
from lakecore.format.parquet.dictionary_strings import (
    LEAST_ROWS,
    decode_dictionaries,
    dictionary_string_columns,
)
from lakecore.format.parquet.footer_bytes import read_footer
from lakecore.format.shared_map.assemble import ShreddedMaps
from lakecore.fs.file_io import FileIO
from lakecore.types.datatypes import DataType, RowType

__all__ = [
    "BUFFER_SIZE",
    "ParquetReader",
    "leaves_of_fields",
    "open_parquet",
    "read_batches",
    "with_timestamps",
]

BUFFER_SIZE = 1 << 20
_MIN_VALUE_BYTES = 8


class ParquetReader:
    """It reads one parquet file. INT96 timestamps are nanoseconds; those of a batch with times outside
    1677..2262 are microseconds.
    """

    def __init__(self, file_io: FileIO, path: str, buffer_size: int = BUFFER_SIZE) -> None:
        self.path = path
        """It names the file in errors."""
        self._buffer_size = buffer_size
        self.source = file_io.open_input(path)
        """This is the open file."""
        try:
            with corrupt_data_errors(path):
                self.file = open_parquet(self.source, buffer_size=buffer_size)
                leaves = self.file.schema
                self.int96 = any(leaves.column(i).physical_type == "INT96" for i in range(len(leaves)))
                """It tells whether a column has times as INT96."""
                self.maps = ShreddedMaps.of(self.file.schema_arrow, self.file.metadata.metadata, path)
                """These are the columns that are shredded maps."""
        except BaseException:
            self.source.close()
            raise
        self.schema: pa.Schema = self.maps.schema
        self._selected: dict[str, tuple[str, ...]] = {}

    @property
    def num_rows(self) -> int:
        return int(self.file.metadata.num_rows)

    @property
    def row_groups(self) -> int:
        return int(self.file.metadata.num_row_groups)

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """Return the bytes of a row by the uncompressed size of the columns; values in a dictionary count for
        at least 8 bytes.

        Of the whole row when the file lacks one of `columns`: it may be there under another name.
        """
        metadata = self.file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if columns is None or not set(columns) <= set(self.schema.names):
            leaves = list(range(metadata.num_columns))
            encoded = sum(group.total_byte_size for group in groups)
        else:
            paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
            leaves = [i for i, path in enumerate(paths) if path in columns or path.split(".")[0] in columns]
            if self._selected:
                leaves = [i for i in leaves if self._is_selected(paths[i])]
            encoded = sum(group.column(i).total_uncompressed_size for group in groups for i in leaves)
        return int(encoded // max(metadata.num_rows, 1)) + _MIN_VALUE_BYTES * len(leaves)

    def _is_selected(self, leaf: str) -> bool:
        paths = self._selected.get(leaf.split(".")[0])
        return paths is None or any(_is_below(leaf, path) for path in paths)

    @property
    def metadata(self) -> Any:
        """Return the footer (pyarrow FileMetaData)."""
        return self.file.metadata

    def select_fields(self, column: str, data_type: DataType) -> bool:
        """Select the fields of a column that are read: those that `data_type` has. Return False where the
        file lacks one of them, so that the column is read whole.
        """
        stored = [self.file.schema.column(i).path for i in range(len(self.file.schema))]
        chosen = leaves_of_fields(stored, column, data_type)
        if chosen is None:
            return False
        self._selected[column] = chosen[0]
        return True

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order; see DataFileReader."""
        with corrupt_data_errors(self.path):
            for batch in self._stored_batches(columns, batch_size, row_groups):
                yield self.maps.restored(batch)

    def _stored_batches(
        self, columns: Sequence[str] | None, batch_size: int, row_groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        if not self.int96:
            file = self._open_with_codes(columns) if batch_size >= LEAST_ROWS else self.file
            yield from read_batches(file, columns, batch_size, row_groups, self._selected)
            return
        metadata = parquet_int96.as_bytes(read_footer(self.source))
        raw = open_parquet(self.source, metadata, self._buffer_size)
        for batch in read_batches(raw, columns, batch_size, row_groups, self._selected):
            yield with_timestamps(batch, self.file.schema_arrow)

    def _open_with_codes(self, columns: Sequence[str] | None) -> Any:
        """Return the file, opened so that text of few values is read as codes, if it has some among
        `columns`.
        """
        coded = [
            name
            for name in dictionary_string_columns(self.file.metadata)
            if columns is None or name in columns
        ]
        if not coded:
            return self.file
        return open_parquet(self.source, self.file.metadata, self._buffer_size, coded)

    def close(self) -> None:
        self.file.close()
        self.source.close()


def with_timestamps(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch, whose INT96 columns were read as bytes (`parquet_int96.as_bytes`), in the types of
    `schema` except for times that nanoseconds cannot represent (`parquet_int96.timestamps`).
    """
    arrays = [parquet_int96.timestamps(array) for array in batch.columns]
    columns = zip(batch.schema.names, arrays, strict=True)
    fields = [schema.field(name).with_type(array.type) for name, array in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def open_parquet(
    source: Any, metadata: Any = None, buffer_size: int = BUFFER_SIZE, coded: Sequence[str] = ()
) -> Any:
    """Return a pyarrow ParquetFile that streams: no pre-buffering, small reads. Page checksums are verified.

    `coded`: columns that it hands out as codes (`read_batches` makes text of them). Maps with nullable keys,
    which pyarrow refuses, come as groups (`canonical` makes maps of them).
    """
    options: dict[str, Any] = {
        "pre_buffer": False,
        "buffer_size": buffer_size,
        "read_dictionary": list(coded),
        "page_checksum_verification": True,
    }
    try:
        return pq.ParquetFile(source, metadata=metadata, **options)
    except pa.ArrowInvalid as err:
        groups = parquet_int96.with_groups(read_footer(source)) if "Map keys" in str(err) else None
        if groups is None:
            raise
        return pq.ParquetFile(source, metadata=groups, **options)


def leaves_of_fields(
    stored: Sequence[str], column: str, data_type: DataType
) -> tuple[tuple[str, ...], list[int]] | None:
    """Return the dotted paths of the fields that a column has by its type, and the numbers of their leaves
    among the `stored` paths; None where there is none of one of them.
    """
    paths = _leaf_paths(column, data_type)
    leaves = [[number for number, leaf in enumerate(stored) if _is_below(leaf, path)] for path in paths]
    return (paths, sorted({*chain.from_iterable(leaves)})) if leaves and all(leaves) else None


def _leaf_paths(name: str, data_type: DataType) -> tuple[str, ...]:
    """Return the dotted paths of all values of a column or field of that type, down to what is no ROW."""
    if not isinstance(data_type, RowType):
        return (name,)
    paths = (_leaf_paths(f"{name}.{field.name}", field.type) for field in data_type)
    return tuple(chain.from_iterable(paths))


def _is_below(leaf: str, path: str) -> bool:
    """Return whether a leaf column is at a dotted path or below it."""
    return leaf == path or leaf.startswith(f"{path}.")


def read_batches(
    file: Any,
    columns: Sequence[str] | None,
    batch_size: int,
    row_groups: Sequence[int] | None = None,
    selected: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Yield batches of an open ParquetFile with exactly `columns`, in that order. Of the columns in
    `selected` only the leaves below these dotted paths are read.
    """
    groups = None if row_groups is None else list(row_groups)
    names = None if columns is None else list(columns)
    if groups == []:
        return
    # pyarrow selects by dotted leaf path: a name with a dot of its own is selected after reading
    dotted = names is None or any("." in name for name in file.schema_arrow.names)
    paths = [] if dotted else [path for name in names or () for path in selected.get(name, (name,))]
    stream = file.iter_batches(
        batch_size=batch_size, row_groups=groups, columns=None if dotted else paths, use_threads=False
    )
    for batch in stream:
        batch = decode_dictionaries(batch)
        yield batch if names is None or batch.schema.names == names else batch.select(names)
