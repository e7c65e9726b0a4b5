"""This module writes packs of blobs of tables with a primary key: files of the table to which rows refer.

Rule of the format: compactions move references, not bytes, so packs stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakecore.format.blob.descriptors import encode_reference
from lakecore.format.blob.file import BlobWriter, Buffer
from lakecore.format.blob.sidecar import PACK_SUFFIX
from lakecore.fs.file_io import FileIO
from lakecore.metadata.dedicated_columns import BLOB_AS_DESCRIPTOR, DedicatedColumns
from lakecore.metadata.options import TableOptions
from lakecore.metadata.row_kind import is_retract
from lakecore.read.columns.blob_values import OpenSources
from lakecore.types.datatypes import DataType, MapType
from lakecore.write.files.inline_blobs import check_references
from lakecore.write.files.removal import remove_created
from lakecore.write.files.rolling import FileSpec
from lakecore.write.rows.incoming import Rows

__all__ = ["BlobPacks"]


class BlobPacks:
    """A writer that puts the blobs of rows of one bucket into packs, one column per pack. After a failure
    call `abort`.

    Rule of the format: this comes before rows of a key are merged, so a pack may hold what no row refers to.
    """

    def __init__(self, file_io: FileIO, spec: FileSpec, root: str) -> None:
        """Create the packs of the table at path `root`."""
        self._file_io = file_io
        self._spec = spec
        self._root = root
        self._open: dict[str, tuple[str, BlobWriter]] = {}
        self._paths: list[str] = []

    @classmethod
    def of(cls, file_io: FileIO, spec: FileSpec, root: str) -> BlobPacks | None:
        """Create the packs; None where the table has no blobs."""
        return cls(file_io, spec, root) if spec.managed or spec.inline_blobs else None

    @property
    def holds_file(self) -> bool:
        """Return whether `close` would close a file."""
        return bool(self._open)

    def written(self, rows: Rows) -> Rows:
        """Write the blobs and return the rows with references for them; retracting rows have none.

        Raises InvalidInputError for bytes where a column holds references only.
        """
        batch = rows.batch
        for name in self._spec.inline_blobs:
            check_references(name, batch.column(name))
        for name in self._spec.managed:
            at = batch.schema.get_field_index(name)
            column = batch.column(at)
            if rows.kinds is not None and (retracts := is_retract(rows.kinds)).any():
                column = pc.if_else(pa.array(retracts), pa.scalar(None, column.type), column)
            data_type = self._spec.schema.row_type.field(name).type
            batch = batch.set_column(at, batch.schema.field(at), self._pack(name, column, data_type))
        return replace(rows, batch=batch)

    def close(self) -> None:
        """Finish the packs that are open; later blobs go to others."""
        for name in list(self._open):
            self._open[name][1].close()
            del self._open[name]

    def abort(self) -> None:
        """Remove every pack. It may follow `close`, and be repeated."""
        writers, self._open = tuple(self._open.values()), {}
        paths, self._paths = self._paths, []
        remove_created(self._file_io, writers, paths)

    def _pack(self, name: str, column: pa.Array, data_type: DataType) -> pa.Array:
        if pa.types.is_binary(column.type):
            return pa.array(self._packed_values(name, column), pa.binary())
        rows: list[Any] = []
        for value in column:
            row = value.as_py()
            if row is not None and isinstance(data_type, MapType):
                row = [(key, self._packed_blob(name, blob)) for key, blob in dict(row).items()]
            elif row is not None:
                row = [self._packed_blob(name, blob) for blob in row]
            rows.append(row)
        return pa.array(rows, column.type)

    def _packed_values(self, name: str, column: pa.Array) -> list[bytes | None]:
        """Write the values; large ones are not copied in memory, and those of references not held
        completely.
        """
        if not BLOB_AS_DESCRIPTOR.read(self._spec.options):
            values = ((memoryview(value.as_buffer()),) if value.is_valid else None for value in column)
            return [pieces and self._reference(name, pieces) for pieces in values]
        with OpenSources(self._file_io, self._root, name) as sources:
            return [
                None if value is None else self._reference(name, sources.pieces_of(value))
                for value in column.to_pylist()
            ]

    def _packed_blob(self, name: str, blob: bytes | None) -> bytes | None:
        return None if blob is None else self._reference(name, (blob,))

    def _reference(self, name: str, pieces: Iterable[Buffer]) -> bytes:
        path, writer = self._open.get(name) or self._new(name)
        offset, size = writer.write_pieces(pieces)
        if writer.size >= self._target_size:
            del self._open[name]
            writer.close()
        return encode_reference(path, offset, size)

    def _new(self, name: str) -> tuple[str, BlobWriter]:
        path = f"{self._spec.directory}/{self._spec.name_prefix}-{len(self._paths)}{PACK_SUFFIX}"
        self._paths.append(path)
        self._open[name] = path, BlobWriter(self._file_io.open_output(path))
        return self._open[name]

    @cached_property
    def _target_size(self) -> int:
        options = TableOptions.from_schema(self._spec.schema)
        return DedicatedColumns.of(
            self._spec.schema.row_type, self._spec.options, options.target_file_size
        ).blob_size
