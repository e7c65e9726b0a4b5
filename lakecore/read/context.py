"""This module has the part of a table that reading needs, in a form that can be sent to an executor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO
from lakecore.merge.engines.choice import engine_of
from lakecore.merge.groups import Engine
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.row.values import values_array
from lakecore.store.external_places import external_directories
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.types.datatypes import RowType

__all__ = ["ProcessCache", "ReadContext"]

_SHARED: tuple[str, ...] = ("options", "engine")
"""Properties that do not depend on the partition, once they are computed."""


class ProcessCache(dict[Any, Any]):
    """It keeps values for one process: a copy by pickle is empty. Several threads may use it."""

    def __reduce__(self) -> tuple[type[ProcessCache], tuple[()]]:
        return ProcessCache, ()


@dataclass(frozen=True)
class ReadContext:
    """A table as it is read. It can be pickled when its file_io can."""

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    """This is the schema of the snapshot."""
    schemas: SchemaStore
    """It finds the schemas that files were written with."""
    orc_zone: str = "UTC"
    """This is the zone of the JVM that wrote ORC files. By default such writers store TIMESTAMP WITH LOCAL
    TIME ZONE minus the offset of their zone (orc.timestamp-ltz.legacy.type); UTC means as stored.
    """
    partition: bytes | None = None
    """This is the partition, as a serialised row, whose values replace the partition columns of the files,
    which may lack them (tables adopted from Hive); None means as stored.
    """
    parts: RowType = RowType(())
    """These columns are read with the types that are given here, whose ROWs have some of their fields; other
    columns are read whole.
    """

    @cached_property
    def options(self) -> TableOptions:
        """Return the options of the schema that is read. Raises InvalidOptionError."""
        return TableOptions.from_schema(self.schema)

    @cached_property
    def engine(self) -> Engine | None:
        """Return the merge engine, or None if the last row of a key wins. Raises InvalidOptionError."""
        return engine_of(self.paths.table_path, self.schema, self.options)

    @cached_property
    def file_columns(self) -> ProcessCache:
        """Return the cache of what is the same for all files of one schema."""
        return ProcessCache()

    @property
    def keyed(self) -> bool:
        """Return whether files are key-value files."""
        return bool(self.schema.primary_keys)

    @cached_property
    def row_type(self) -> RowType:
        """Return the columns with the types that are read."""
        return self.with_read_types(self.schema.row_type)

    def with_read_types(self, row_type: RowType) -> RowType:
        """Return `row_type` with the types that are read of the columns in `parts`."""
        if not self.parts.fields:
            return row_type
        types = {field.name: field.type for field in self.parts}
        fields = (replace(field, type=types.get(field.name, field.type)) for field in row_type)
        return replace(row_type, fields=tuple(fields))

    def with_parts(self, parts: RowType) -> ReadContext:
        """Return the context that reads these columns with these types; `RowType(())`: all of them whole."""
        return self._with_options_of_this(replace(self, parts=parts))

    def in_partition(self, partition: bytes) -> ReadContext:
        """Return the context for files of one partition; a table without partitions stays as it is."""
        if not self.schema.partition_keys:
            return self
        return self._with_options_of_this(replace(self, partition=partition))

    def _with_options_of_this(self, context: ReadContext) -> ReadContext:
        context.__dict__.update({name: self.__dict__[name] for name in _SHARED if name in self.__dict__})
        return context

    @cached_property
    def partition_values(self) -> dict[str, pa.Array]:
        """Return the partition columns and their one value each, as arrays of one row."""
        if self.partition is None:
            return {}
        row_type = self.schema.partition_type
        values = decode_row(self.partition, row_type, self.paths.table_path)
        return {
            field.name: values_array([value], field.type)
            for field, value in zip(row_type.fields, values, strict=True)
        }

    def file_schema(self, schema_id: int) -> TableSchema:
        """Return the schema a file was written with. Raises NotFoundError."""
        return self.schema if schema_id == self.schema.id else self.schemas.load(schema_id)

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """Return the directory of a bucket; `partition` is a serialised row."""
        values = decode_row(partition, self.schema.partition_type, self.paths.table_path)
        options = self.options
        path = partition_path(
            values,
            self.schema.partition_type,
            options.partition_default_name,
            legacy_name=options.partition_legacy_name,
        )
        return self.paths.bucket_dir(path, bucket, options)

    def directories_of_new_files(self, bucket_dirs: Iterable[str]) -> tuple[str, ...]:
        """Return the directories in which new files of buckets are (`external_directories`), each once."""
        return external_directories(self.paths.table_path, bucket_dirs, self.schema.options)

    def data_path(self, partition: bytes, bucket: int, file: DataFile) -> str:
        """Return the path of one file of a bucket."""
        return self.paths.data_file(self.bucket_dir(partition, bucket), file)
