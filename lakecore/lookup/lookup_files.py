"""This module writes lookup files beside the data files that a compaction has made
(`lookup.remote-file.enabled`), so that who looks rows up need not read the data files.

Rules of Paimon's LookupMergeTreeCompactRewriter and RemoteLookupFileManager: compactions that look rows up
write them, from `lookup.remote-file.level-threshold` on. An entry has what these compactions need of a row:
its values and sequence number, its position, both, or nothing. Local queries read those with values. A file
that leaves level 0 as it is gets one too. What was written is read back once.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np
import pyarrow as pa

from lakecore.errors import LakeError, ProofError
from lakecore.format.lookup_file.compact_values import ByteRows, encode_compact_rows, joined_bytes
from lakecore.format.lookup_file.reader import read_entries
from lakecore.format.lookup_file.varints import encode_varints
from lakecore.format.lookup_file.writer import LookupFileOptions, LookupFileWriter
from lakecore.lookup.query.cache_options import CacheOptions
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.options import Option, parse_bool, parse_size
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file
from lakecore.read.file.sizes import ReadSizes

__all__ = [
    "LEVEL_THRESHOLD",
    "LOOKUP_SUFFIX",
    "REMOTE_FILES",
    "EntryForm",
    "LookupFiles",
    "entry_form",
    "flat_token",
]

logger = logging.getLogger(__name__)

REMOTE_FILES = Option(
    "lookup.remote-file.enabled", parse_bool, False, "Write lookup files beside data files, and read them."
)
LEVEL_THRESHOLD = Option(
    "lookup.remote-file.level-threshold", int, -(1 << 31), "Files of lower levels have no lookup files."
)
_PAGE_SIZE = Option("cache-page-size", parse_size, 64 << 10, "Bytes of a block of a lookup file.")
_ZSTD_LEVEL = Option("spill-compression.zstd-level", int, 1, "Level of zstd.")
LOOKUP_SUFFIX = ".lookup"
_VERSION = "v1"
_BATCH_ROWS = 1 << 15
_IN_MEMORY = 32 << 20
_COPY_BYTES = 8 << 20


class EntryForm(Enum):
    """It says what an entry has beside its key. The values are parts of the names of files."""

    VALUE = "value"
    POSITION = "position"
    VALUE_AND_POSITION = "position-and-value"
    EMPTY = "empty"

    @property
    def has_value(self) -> bool:
        """Tell whether an entry has the values of the row."""
        return self in (EntryForm.VALUE, EntryForm.VALUE_AND_POSITION)


def entry_form(options: TableOptions) -> EntryForm | None:
    """Return the form of the lookup files that compactions of a table write; None where they do not look rows
    up.
    """
    if not options.needs_lookup or options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        return None
    if options.merge_engine is MergeEngine.FIRST_ROW:
        return EntryForm.EMPTY
    if not options.deletion_vectors:
        return EntryForm.VALUE
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
    announces = options.changelog_producer is ChangelogProducer.LOOKUP
    return EntryForm.POSITION if plain and not announces else EntryForm.VALUE_AND_POSITION


def flat_token(token: str) -> str:
    """Return what the names of files beside a data file have of `token`: all but dashes and dots."""
    return token.replace("-", "").replace(".", "")


class LookupFiles:
    """It writes the lookup files of one bucket, where the table asks for them."""

    def __init__(self, context: ReadContext, bucket_dir: str) -> None:
        """`context` has the options and the schema of the files."""
        self._context = context
        self._bucket_dir = bucket_dir
        raw = context.schema.options
        self._form = entry_form(context.options) if REMOTE_FILES.read(raw) else None
        self._threshold = LEVEL_THRESHOLD.read(raw)
        self._paths: list[str] = []

    def write_for(self, files: Sequence[DataFile]) -> tuple[DataFile, ...]:
        """Return the files with the names of their lookup files, which are written. Each data file is read
        once more. Call `abort` where it raises.
        """
        forms = map(self._form_of, files)
        return tuple(
            file if form is None else self._write_one(file, form, "")
            for file, form in zip(files, forms, strict=True)
        )

    def needs(self, moved: DataFile) -> bool:
        """Return whether a file that leaves level 0 as it is gets a lookup file. It has its new level."""
        has_one = any(name.endswith(LOOKUP_SUFFIX) for name in moved.extra_files)
        return self._form_of(moved) is not None and not has_one

    def write_for_moved(self, moved: DataFile, token: str) -> str:
        """Return the name of a new lookup file of a file that `needs` one, and that other attempts may move
        too. `token` is in its name (`flat_token`), so that no attempt removes the file of another. Call
        `abort` where it raises.
        """
        form = self._form_of(moved)
        if form is None:
            raise ValueError(f"{moved.file_name} needs no lookup file")
        return self._write_one(moved, form, f"{flat_token(token)}-").extra_files[-1]

    def abort(self) -> None:
        """Remove what was written; what storage refuses to remove stays as an orphan."""
        paths, self._paths = self._paths, []
        for path in paths:
            try:
                self._context.file_io.delete(path)
            except LakeError as err:
                logger.warning("%s is not needed but could not be removed: %s", path, err)

    def _form_of(self, file: DataFile) -> EntryForm | None:
        """Return the form of a file's lookup file; None where the table asks for none."""
        return self._form if file.level >= self._threshold else None

    def _write_one(self, file: DataFile, form: EntryForm, mark: str) -> DataFile:
        context = self._context
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as local:
            for part in self._bytes(file, form):
                local.write(part)
            size = local.tell()
            name = f"{file.file_name}.{mark}{size}.{form.value}.{_VERSION}{LOOKUP_SUFFIX}"
            folder = context.paths.directory_of(self._bucket_dir, file)
            path = f"{folder}/{name}"
            self._paths.append(path)
            local.seek(0)
            output = context.file_io.open_output(path)
            try:
                while data := local.read(_COPY_BYTES):
                    output.write(data)
                output.close()
            except BaseException:
                output.abort()
                raise
        self._read_back(path, size, file.row_count)
        return replace(file, extra_files=(*file.extra_files, name))

    def _read_back(self, path: str, size: int, rows: int) -> None:
        """Check the size, the checksums and the number of entries. Raises ProofError, CorruptDataError."""
        with self._context.file_io.open_ranges(path) as source:
            if source.size() != size:
                raise ProofError(path, f"{size} bytes were written, and it has {source.size()}")
            count = sum(len(entries) for entries in read_entries(source, path))
        if count != rows:
            raise ProofError(path, f"its data file has {rows} rows, and it has {count}")

    def _bytes(self, file: DataFile, form: EntryForm) -> Iterator[bytes]:
        writer = LookupFileWriter(file.row_count, _file_options(self._context))
        keys, values = self._context.schema.key_type, self._context.schema.row_type
        columns = values.names if form.has_value else keys.names
        names = tuple(dict.fromkeys((*columns, *self._context.schema.trimmed_primary_keys)))
        system = (SEQUENCE_NAME, KIND_NAME)
        position = 0
        sizes = ReadSizes(batch_rows=_BATCH_ROWS)
        for batch in read_file(self._context, self._bucket_dir, file, (*names, *system), sizes=sizes):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                part = batch.slice(start, _BATCH_ROWS)
                yield from writer.add(self._keys(part), self._values(part, position, form))
                position += part.num_rows
        yield from writer.finish()

    def _keys(self, batch: pa.RecordBatch) -> ByteRows:
        schema = self._context.schema
        columns = [batch.column(name) for name in schema.trimmed_primary_keys]
        return encode_compact_rows(columns, schema.row_type.select(schema.trimmed_primary_keys))

    def _values(self, batch: pa.RecordBatch, position: int, form: EntryForm) -> ByteRows:
        count = batch.num_rows
        positions = np.arange(position, position + count, dtype="<i8")
        if form is EntryForm.EMPTY:
            return ByteRows(np.zeros(0, np.uint8), np.zeros(count, np.int64))
        if form is EntryForm.POSITION:
            return ByteRows(*encode_varints(positions))
        row_type = self._context.schema.row_type
        parts = [encode_compact_rows([batch.column(name) for name in row_type.names], row_type)]
        if form is EntryForm.VALUE_AND_POSITION:
            parts.append(_numbers(positions))
        parts.append(_numbers(batch.column(SEQUENCE_NAME).to_numpy().astype("<i8")))
        parts.append(_numbers(batch.column(KIND_NAME).to_numpy().astype(np.int8)))
        return joined_bytes(parts)


def _numbers(values: np.ndarray[tuple[int], np.dtype[np.signedinteger]]) -> ByteRows:
    data = np.ascontiguousarray(values).view(np.uint8)
    return ByteRows(data, np.full(len(values), values.dtype.itemsize))


def _file_options(context: ReadContext) -> LookupFileOptions:
    raw = context.schema.options
    cache = CacheOptions.from_options(raw)
    return LookupFileOptions(
        codec=cache.codec, zstd_level=_ZSTD_LEVEL.read(raw), block_size=_PAGE_SIZE.read(raw), fpp=cache.fpp
    )
