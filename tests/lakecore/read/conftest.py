"""A table in memory whose files are written directly, without manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakecore.format.data_writer import WriterOptions, open_writer
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.key_value import key_value_type
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.metadata.schema import TableSchema
from lakecore.read.context import ReadContext
from lakecore.read.split.split_reader import ReadRequest, read_split
from lakecore.row.binary_row import encode_row
from lakecore.row.values import batch_rows, rows_batch
from lakecore.scan.split import Split
from lakecore.store.indexes import IndexStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

ROOT = "memory://read/db.db/t"


@dataclass
class SmallTable:
    """Writes data files of one bucket and reads them. Rows of key-value files: (*keys, sequence, kind, *columns)."""

    schema: TableSchema
    file_io: MemoryFileIO
    kind: str = "parquet"
    options: WriterOptions = field(default_factory=WriterOptions)
    count: int = 0

    @property
    def context(self) -> ReadContext:
        paths = TablePaths(ROOT)
        return ReadContext(self.file_io, paths, self.schema, SchemaStore(self.file_io, paths))

    @property
    def bucket_dir(self) -> str:
        return f"{ROOT}/bucket-0"

    def evolve(self, schema: TableSchema) -> None:
        """Files from now on have another schema; the old one can still be loaded."""
        for each in (self.schema, schema):
            self.file_io.overwrite(f"{ROOT}/schema/schema-{each.id}", each.to_json().encode())
        self.schema = schema

    def write(
        self, rows: Sequence[tuple[Any, ...]], *, level: int = 0, thin: bool = False, chunk: int = 10**9
    ) -> DataFile:
        keyed = bool(self.schema.primary_keys)
        types: RowType = key_value_type(self.schema) if keyed else self.schema.row_type
        stored = key_value_type(self.schema, thin=True) if thin else types
        name = f"data-{self.count}.{self.kind}"
        self.count += 1
        writer = open_writer(
            self.file_io, f"{self.bucket_dir}/{name}", self.kind, arrow_schema(stored), self.options
        )
        for start in range(0, len(rows), chunk):
            batch = rows_batch(rows[start : start + chunk], types, arrow_schema(types))
            writer.write(batch.select(list(stored.names)))
        done = writer.close()
        keys = len(self.schema.trimmed_primary_keys)
        low, high = EMPTY_ROW, EMPTY_ROW
        if keyed:
            low, high = (encode_row(row[:keys], self.schema.key_type) for row in (rows[0], rows[-1]))
        sequences = [row[keys] for row in rows] if keyed else [0]
        return DataFile(
            file_name=name,
            file_size=done.size,
            row_count=done.rows,
            min_key=low,
            max_key=high,
            min_sequence_number=min(sequences),
            max_sequence_number=max(sequences),
            schema_id=self.schema.id,
            level=level,
            delete_row_count=sum(row[keys + 1] in (1, 3) for row in rows) if keyed else 0,
        )

    def split(self, *files: DataFile, raw: bool = False, deleted: Mapping[str, Any] | None = None) -> Split:
        """`deleted`: positions by file name; they go into an index file."""
        split = Split(partition=EMPTY_ROW, bucket=0, total_buckets=1, files=files, raw_convertible=raw)
        if not deleted:
            return split
        store = IndexStore(self.file_io, TablePaths(ROOT), self.schema)
        index = store.write_vectors(EMPTY_ROW, 0, {name: BitMap(rows) for name, rows in deleted.items()})
        found = {place.data_file: DeletionFile(store.path(index), place) for place in index.deletions}
        return replace(split, deletions=tuple(found.get(file.file_name) for file in files))

    def read(
        self,
        *files: DataFile,
        raw: bool = False,
        columns: Any = None,
        where: Any = None,
        deleted: Mapping[str, Any] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows in the order they come."""
        types = self.schema.row_type if columns is None else self.schema.row_type.select(tuple(columns))
        split = self.split(*files, raw=raw, deleted=deleted)
        batches = read_split(self.context, split, ReadRequest(columns, where))
        return [row for batch in batches for row in batch_rows(_checked(batch, types), types)]


def _checked(batch: pa.RecordBatch, types: RowType) -> pa.RecordBatch:
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(types))
    return batch


@pytest.fixture
def small_table() -> Any:
    """Makes a SmallTable of a schema."""

    def make(schema: TableSchema, kind: str = "parquet", **options: Any) -> SmallTable:
        file_io = MemoryFileIO("read")
        file_io.clear()
        return SmallTable(schema, file_io, kind, replace(WriterOptions(), **options))

    return make
