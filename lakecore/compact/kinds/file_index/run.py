"""This module runs one unit: it reads the columns that lack an index, and writes the indexes of some data
files anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from lakecore.clock import Clock
from lakecore.compact.engine.cleanup import remove
from lakecore.compact.engine.work import attempt_name
from lakecore.compact.kinds.file_index.plan import IndexNeed
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.index.builder import FileIndexBuilder
from lakecore.index.container import INDEX_SUFFIX, encode_container
from lakecore.index.definition import IN_MANIFEST
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.file.file_index import open_index
from lakecore.read.file.file_reader import read_file

__all__ = ["IndexResult", "IndexUnit", "Rewritten", "index_name", "run_unit"]


_EMPTY_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class IndexUnit:
    """`token`: part of the names of all index files of a run; the unit adds what tells attempts apart."""

    name: str
    reading: ReadContext
    bucket_dir: str
    needs: tuple[IndexNeed, ...]
    token: str
    clock: Clock

    @property
    def rows(self) -> int:
        return sum(need.file.row_count for need in self.needs if need.missing)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """It has a data file as it was described, and as it is to be."""

    need: IndexNeed
    after: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """This is the result of a unit. `new_paths` are paths of new index files, `rows` the rows read, `bytes`
    those of new indexes, wherever they are stored.
    """

    files: tuple[Rewritten, ...]
    new_paths: tuple[str, ...]
    rows: int
    bytes: int


def index_name(file: DataFile, token: str, attempt: str) -> str:
    """Return a new name beside a data file: readers recognise an index file by its end.

    It has no dash before a number at the end, because other writers of the format count such a number up, and
    write over what has that name.
    """
    return f"{file.file_name}.{token}{attempt}{INDEX_SUFFIX}"


def run_unit(unit: IndexUnit) -> IndexResult:
    """Make the indexes. On any failure the files of this attempt are removed again.

    Raises CorruptDataError, NotFoundError, UnavailableError, UnsupportedError for a value that cannot be
    indexed.
    """
    paths: list[str] = []
    attempt = attempt_name(unit.clock)
    files = []
    rows = size = 0
    try:
        for need in unit.needs:
            data, read = _container(unit, need, attempt)
            files.append(Rewritten(need, _describe(unit, need.file, data, attempt, paths.append)))
            rows += read
            size += len(data)
    except BaseException:
        remove(unit.reading.file_io, paths)
        raise
    return IndexResult(files=tuple(files), new_paths=tuple(paths), rows=rows, bytes=size)


def _container(unit: IndexUnit, need: IndexNeed, attempt: str) -> tuple[bytes, int]:
    """Return all indexes of one file, and how many rows were read for them.

    Rule of the format: a file is deleted and added by name, level, extra files and embedded bytes, and what
    was deleted once counts as deleted for good. So a description must never come back: every container is
    marked, and one without any index stands for none.
    """
    blobs: dict[str, dict[str, bytes | None]] = {}
    if need.present:
        with open_index(unit.reading, unit.bucket_dir, need.file) as index:
            for name, kind in need.present:
                blob = index.head[name][kind]
                blobs.setdefault(name, {})[kind] = None if blob.empty else index.read(blob)
    rows = 0
    if need.missing:
        builder = FileIndexBuilder(need.missing)
        for batch in _columns(unit, need):
            builder.add(batch)
            rows += batch.num_rows
        if rows != need.file.row_count:
            path = unit.reading.paths.data_file(unit.bucket_dir, need.file)
            raise CorruptDataError(
                path, f"contains {rows} rows, but its metadata records {need.file.row_count}"
            )
        for name, kinds in builder.blobs().items():
            blobs.setdefault(name, {}).update(kinds)
    return encode_container(blobs, attempt.encode()), rows


def _columns(unit: IndexUnit, need: IndexNeed) -> Iterator[pa.RecordBatch]:
    """Yield the columns to be indexed, of every row of the file, by the schema that the file was written
    with.
    """
    schema = unit.reading.file_schema(need.file.schema_id)
    reading = replace(unit.reading, schema=schema)
    names = tuple(dict.fromkeys(spec.column for spec in need.missing))
    return read_file(reading, unit.bucket_dir, need.file, names)


def _describe(
    unit: IndexUnit, file: DataFile, data: bytes, attempt: str, about_to_make: Callable[[str], None]
) -> DataFile:
    """Return the file with `data` as its indexes; nothing else of its description changes."""
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    few = len(data) <= _EMPTY_BYTES or len(data) <= IN_MANIFEST.read(unit.reading.schema.options)
    if few:
        return replace(file, extra_files=others, embedded_index=data)
    name = index_name(file, unit.token, attempt)
    directory = unit.reading.paths.directory_of(unit.bucket_dir, file)
    about_to_make(f"{directory}/{name}")
    unit.reading.file_io.write_new(f"{directory}/{name}", data)
    return replace(file, extra_files=(*others, name), embedded_index=None)
