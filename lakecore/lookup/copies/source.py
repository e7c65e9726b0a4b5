"""This module says what a copy of a data file is made from, and by which name processes find it. Pure.

The name is a digest of all that decides what a copy has: where the table is, the columns and options with
which it is read, the rows that are kept, and the manifest's entry of the data file. Options that only say how
lookups go on (`lookup.…`) are left out, except those of the copy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

from lakecore.data_class import dataclass
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.lookup.query.copy_writer import CopyRows
from lakecore.lookup.query.lookup_file import FileIndex
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import RowType

__all__ = ["CopyForm", "CopySource", "CopyWriter", "copy_digest", "table_digest"]

Parts = Iterable[bytes]
CopyWriter = tuple[Callable[[], Parts], Callable[[], FileIndex]]
"""The first makes the bytes of a copy, and may be called again; the second, when they are written."""

_FORMAT = 1
"""Copies of another format have other names: raise it with each change of blocks, index or key order."""
_LOOKUP_OPTIONS = "lookup."


@dataclass(frozen=True, slots=True)
class CopyForm:
    """A copy of this name has these keys and so many rows."""

    digest: str
    key_names: tuple[str, ...]
    key_type: RowType
    rows: int


@dataclass(frozen=True, slots=True)
class CopySource:
    """It makes a copy. Both functions are called when they are needed only."""

    writer: Callable[[], CopyWriter]
    form: Callable[[], CopyForm]


def table_digest(path: str, schema: TableSchema, rows: CopyRows, options: CacheOptions) -> bytes:
    """Return a digest of what the names of all copies of a query have in common."""
    raw = sorted((key, text) for key, text in schema.options.items() if not key.startswith(_LOOKUP_OPTIONS))
    columns = (schema.id, schema.time_millis, schema.fields, schema.primary_keys, schema.partition_keys)
    how = (options.codec, options.fpp)
    return sha256(repr((_FORMAT, path, columns, raw, rows, how)).encode()).digest()


def copy_digest(table: bytes, partition: bytes, bucket: int, file: DataFile) -> str:
    """Return the name of the copy of a data file, from that of its table. The level may change."""
    entry = (
        file.file_name, file.file_size, file.row_count, file.min_key, file.max_key,
        file.min_sequence_number, file.max_sequence_number, file.schema_id, file.creation_time,
        file.external_path, file.first_row_id, file.write_cols,
    )  # fmt: skip
    return sha256(table + repr((partition, bucket, entry)).encode()).hexdigest()
