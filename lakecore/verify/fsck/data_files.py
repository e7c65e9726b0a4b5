"""This module compares the rows of one data file with its manifest entry: counts, sequence numbers, key order
and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, UnavailableError
from lakecore.format.blob.file import BlobSource, load_blob_index
from lakecore.format.bounds import ColumnBounds
from lakecore.format.data_reader import open_reader
from lakecore.format.orc.reader import unreadable_times
from lakecore.fs.file_io import FileIO
from lakecore.metadata.dedicated_columns import is_blob_file
from lakecore.metadata.key_order import comparable, key_order
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.metadata.options import BY_SNAPSHOT, PK_CLUSTERING_OVERRIDE, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.store.schemas import SchemaStore
from lakecore.verify.contents.column_stats import ColumnStats
from lakecore.verify.contents.file_indexes import index_problems
from lakecore.verify.contents.inline_blobs import InlineBlobs
from lakecore.verify.contents.keyed_rows import KeyedRows
from lakecore.verify.contents.packs import PackCheck, RowPacks
from lakecore.verify.digest.columns import read_covered, written_schema
from lakecore.verify.digest.shape import ProofMode, shape_of
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.references import DataReference

__all__ = ["DataFileCheck", "bounds_of"]


@dataclass(slots=True)
class DataFileCheck:
    """This check opens data files. It keeps one batch in memory.

    `keyed`: key-value files are read (key, sequence, kind), others only counted by footer. `deep`: every
    column of every file is decoded and compared with its statistics, and file indexes are asked for some of
    the values.
    """

    file_io: FileIO
    findings: Findings
    keyed: bool
    deep: bool
    _packs: PackCheck = field(init=False)

    def __post_init__(self) -> None:
        self._packs = PackCheck(self.file_io)

    def check(self, reference: DataReference) -> None:
        """Compare one file with its entry. Raises UnavailableError only."""
        try:
            self._check(reference)
        except UnavailableError:
            raise
        except CorruptDataError as err:
            self._add(FindingKind.BYTES, reference, err.problem)
        except LakeError as err:
            self.findings.failed(FindingKind.ROWS, reference.path, err, reference.owner)

    def _check(self, reference: DataReference) -> None:
        self.findings.files_read += 1
        self._check_times(reference)
        if is_blob_file(reference.file.file_name):
            self._check_blobs(reference)
            return
        if not self.keyed and not self.deep:
            reader = open_reader(self.file_io, reference.path)
            rows = reader.num_rows
            reader.close()
            self._equal(reference, "row count", rows, reference.file.row_count)
            return
        schema = written_schema(reference.schemas.load(reference.file.schema_id), reference.file)
        mode = ProofMode.FULL if self.deep else ProofMode.KEYS
        shape = shape_of(schema, TableOptions.from_schema(schema), mode)
        keys, stats, packs = KeyedRows(shape.key), ColumnStats(shape), RowPacks(shape, schema)
        inline = InlineBlobs(shape, schema)
        rows = 0
        for columns in read_covered(self.file_io, reference.path, shape, schema):
            rows += len(columns[0])
            if shape.keyed:
                keys.add(columns)
            if self.deep:
                stats.add(columns)
                packs.add(columns)
                inline.add(columns)
        self.findings.rows_read += rows
        self._equal(reference, "row count", rows, reference.file.row_count)
        if shape.keyed and rows:
            self._check_keyed(reference, keys, schema)
        self._check_packs(reference, packs)
        if self.deep:
            for problem in stats.problems(reference.file, schema) if rows else ():
                self._add(FindingKind.COLUMN_STATISTICS, reference, problem)
            for problem in inline.problems():
                self._add(FindingKind.REFERENCES, reference, problem)
            self._check_indexes(reference, schema)

    def _check_times(self, reference: DataReference) -> None:
        for column, count in unreadable_times(self.file_io, reference.path).items():
            problem = f"column {column} has {count} timestamps before 1970 in a form that Java cannot read"
            self._add(FindingKind.TIMES, reference, problem)

    def _check_blobs(self, reference: DataReference) -> None:
        """Check the blobs. Each value has a checksum, which is compared only with `deep`."""
        index = load_blob_index(self.file_io, reference.path)
        self._equal(reference, "row count", len(index.sizes), reference.file.row_count)
        if not self.deep:
            return
        source = BlobSource(self.file_io, reference.path)
        try:
            for start, size in zip(index.starts.tolist(), index.sizes.tolist(), strict=True):
                for _ in source.pieces(start, size) if size >= 0 else ():
                    pass
        finally:
            source.close()
        self.findings.rows_read += len(index.sizes)

    def _check_packs(self, reference: DataReference, packs: RowPacks) -> None:
        try:
            for path, problem in self._packs.problems(reference.path, reference.file, packs.packs):
                self.findings.add(FindingKind.DATA_FILE, path, f"{problem} (needed by {reference.owner})")
        except CorruptDataError as err:
            self.findings.failed(FindingKind.INDEX_FILE, err.path, err, reference.owner)

    def _check_indexes(self, reference: DataReference, schema: TableSchema) -> None:
        try:
            for path, problem in index_problems(self.file_io, reference.path, reference.file, schema):
                self.findings.add(FindingKind.INDEX_FILE, path, f"{problem} (needed by {reference.owner})")
        except CorruptDataError as err:
            self.findings.failed(FindingKind.INDEX_FILE, err.path, err, reference.owner)

    def _check_keyed(self, reference: DataReference, rows: KeyedRows, schema: TableSchema) -> None:
        file = reference.file
        if file.delete_row_count is not None:
            self._equal(reference, "delete row count", rows.deletes, file.delete_row_count)
        if not BY_SNAPSHOT.read(schema.options) or file.file_source is FileSource.COMPACT:
            bounds = (file.min_sequence_number, file.max_sequence_number)
            self._equal(reference, "range of sequence numbers", (rows.low, rows.high), bounds)
        if not reference.ordered or PK_CLUSTERING_OVERRIDE.read(schema.options):
            return
        if not rows.in_order:
            self._add(FindingKind.KEY_ORDER, reference, "its keys do not strictly increase")
        order = key_order(schema.key_type)
        first, last = (tuple(map(comparable, key)) for key in (rows.first, rows.last))
        if first < order(file.min_key) or last > order(file.max_key):
            self._add(FindingKind.KEY_ORDER, reference, "it has rows outside its minimum and maximum key")

    def _equal(self, reference: DataReference, what: str, actual: object, recorded: object) -> None:
        if actual != recorded:
            self._add(
                FindingKind.ROWS,
                reference,
                f"its {what} is {actual}, but its description says {recorded}",
            )

    def _add(self, kind: FindingKind, reference: DataReference, problem: str) -> None:
        self.findings.add(kind, reference.path, f"{problem} (needed by {reference.owner})")


def bounds_of(
    file_io: FileIO, path: str, file: DataFile, schemas: SchemaStore
) -> tuple[TableSchema, Mapping[str, ColumnBounds]]:
    """Return the columns that the file has, and the bounds of its rows. It keeps one batch in memory."""
    schema = written_schema(schemas.load(file.schema_id), file)
    shape = shape_of(schema, TableOptions.from_schema(schema), ProofMode.FULL)
    stats = ColumnStats(shape)
    for columns in read_covered(file_io, path, shape, schema):
        stats.add(columns)
    return schema, stats.bounds()
