"""This module compares the footers of Parquet files with the columns that Spark's reader is asked for.

Spark's reader has no error for a missing column, converts some types, and fails at runtime for encodings that
it does not know. A file that differs in any of this is refused here, before Spark reads it.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.errors import CorruptDataError, UnsupportedError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.fs.file_io import FileIO
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import RowType

__all__ = ["FooterCheck"]

_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
_ENCODINGS = frozenset(
    {
        "PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED",
        "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
    }
)  # fmt: skip
_NANOS = "INT96"
_WRITTEN_BY_SPARK = (b"org.apache.spark.version", b"org.apache.spark.legacyDateTime")
"""Spark decides by these keys about calendars of dates, whatever the options of a read say."""


class FooterCheck:
    """It compares footers with the columns of a read, and remembers the last schema that agreed."""

    def __init__(self, row_type: RowType) -> None:
        self._types = {field.name: arrow_type(field.type) for field in row_type}
        self._agreed: Any = None
        self._leaves: tuple[int, ...] = ()

    def check(self, file_io: FileIO, path: str, row_count: int) -> None:
        """Read a footer. Raises UnsupportedError for what Spark's reader would read otherwise, NotFoundError,
        CorruptDataError for a file without a footer or with another number of rows than `row_count`.
        """
        with file_io.open_input(path) as source, corrupt_data_errors(path):
            footer = pq.read_metadata(source)
        if footer.num_rows != row_count:
            raise CorruptDataError(path, f"has {footer.num_rows} rows, but the manifest says {row_count}")
        name = os.path.basename(path)
        if any(key in (footer.metadata or {}) for key in _WRITTEN_BY_SPARK):
            raise UnsupportedError(f"file {name} was written by Spark itself")
        if self._agreed is None or not footer.schema.equals(self._agreed):
            self._check_schema(footer.schema, name)
        self._check_chunks(footer, name)

    def _check_schema(self, schema: Any, name: str) -> None:
        stored = schema.to_arrow_schema()
        for column, kind in self._types.items():
            if stored.names.count(column) != 1 or stored.field(column).type != kind:
                raise UnsupportedError(f"file {name} stores column {column} {_form(stored, column)}")
        if len({column.lower() for column in stored.names}) < len(stored.names):
            raise UnsupportedError(f"file {name} has columns whose names differ only in case")
        leaves = (schema.column(at) for at in range(len(schema)))
        self._leaves = tuple(at for at, leaf in enumerate(leaves) if _root(leaf.path) in self._roots)
        for at in self._leaves:
            if schema.column(at).physical_type == _NANOS:
                raise UnsupportedError(f"file {name} stores times as {_NANOS}")
        self._agreed = schema

    @property
    def _roots(self) -> frozenset[str]:
        return frozenset(_root(name) for name in self._types)

    def _check_chunks(self, footer: Any, name: str) -> None:
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for at in self._leaves:
                chunk = group.column(at)
                if chunk.compression not in _CODECS or not _ENCODINGS.issuperset(chunk.encodings):
                    raise UnsupportedError(
                        f"file {name} has a column with compression {chunk.compression} and encodings "
                        f"{', '.join(chunk.encodings)}"
                    )


def _root(path: str) -> str:
    """Return the first part of a dotted path; a name with a dot of its own may select more columns."""
    return path.split(".")[0]


def _form(schema: pa.Schema, column: str) -> str:
    return f"as {schema.field(column).type}" if schema.names.count(column) == 1 else "not exactly once"
