"""What reading needs to know about a table, in a form that travels to an executor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lakecore.fs.file_io import FileIO
from lakecore.merge.engines.choice import engine_of
from lakecore.merge.groups import Engine
from lakecore.metadata.data_file import DataFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.row.partition_path import partition_path
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["ReadContext"]


@dataclass(frozen=True)
class ReadContext:
    """A table as it is read: `schema` is the schema of the snapshot, `schemas` finds those of its files.

    `orc_zone`: zone of the JVM that wrote ORC files. By default such writers store
    TIMESTAMP WITH LOCAL TIME ZONE minus the offset of their zone (orc.timestamp-ltz.legacy.type); UTC
    means as stored. Pickles when its file_io does.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    schemas: SchemaStore
    orc_zone: str = "UTC"

    @cached_property
    def options(self) -> TableOptions:
        """Options of the schema that is read. Raises InvalidOptionError."""
        return TableOptions.from_schema(self.schema)

    @cached_property
    def engine(self) -> Engine | None:
        """How rows of a key become one; None: the last one stays. Raises InvalidOptionError."""
        return engine_of(self.paths.table_path, self.schema, self.options)

    @property
    def keyed(self) -> bool:
        """Files are key-value files."""
        return bool(self.schema.primary_keys)

    def file_schema(self, schema_id: int) -> TableSchema:
        """The schema a file was written with. Raises NotFoundError."""
        return self.schema if schema_id == self.schema.id else self.schemas.load(schema_id)

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """Directory of a bucket; `partition` is a serialised row."""
        values = decode_row(partition, self.schema.partition_type, self.paths.table_path)
        options = self.options
        path = partition_path(
            values,
            self.schema.partition_type,
            options.partition_default_name,
            legacy_name=options.partition_legacy_name,
        )
        return self.paths.bucket_dir(path, bucket, options)

    def data_path(self, partition: bytes, bucket: int, file: DataFile) -> str:
        """Path of one file of a bucket."""
        return self.paths.data_file(self.bucket_dir(partition, bucket), file)
