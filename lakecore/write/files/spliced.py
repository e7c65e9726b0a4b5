"""This module writes files that are made of row groups of others, or of runs of their pages, copied as they
are, and of row groups that are encoded here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import field

import pyarrow as pa

from lakecore.clock import local_ms
from lakecore.data_class import dataclass
from lakecore.format.data_writer import WriterOptions, WrittenFile
from lakecore.format.parquet.splice.footer import Footer, read_splice_footer
from lakecore.format.parquet.splice.pages import RunFacts, examine_pages
from lakecore.format.parquet.splice.reasons import SpliceRefusal
from lakecore.format.parquet.splice.rules import mixing_refusal
from lakecore.format.parquet.splice.writer import SpliceWriter
from lakecore.format.parquet.writer import ParquetWriter
from lakecore.format.statistics import recorded_bounds, recorded_key_bounds
from lakecore.fs.file_io import FileIO, RangeSource
from lakecore.fs.whole_file import BytesSource, open_small_whole
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KEY_PREFIX
from lakecore.metadata.schema import TableSchema
from lakecore.prefetch import in_threads
from lakecore.types.arrow import arrow_schema
from lakecore.write.files.file_meta import FileSummary, data_file
from lakecore.write.files.merged_bounds import MergedBounds
from lakecore.write.files.removal import remove_created
from lakecore.write.files.rolling import FileSpec, stored_columns

__all__ = ["CopySource", "SplicedFile", "SplicedWriter", "copy_sources", "encoded_footer"]

_MOST_BYTES = 32 << 20
"""Encoded bytes that are held in memory, before they become row groups of the file."""
_LEAST_AHEAD = 4 << 20
"""Bytes of a file of a local disk, on average, from which on it is read ahead."""


@dataclass(frozen=True, slots=True)
class SplicedFile:
    """This is a finished file. `origins` has the number of the input that each row group was copied from,
    None for one that was encoded.
    """

    file: DataFile
    origins: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class CopySource:
    """This is an open file whose pages are as its footer says."""

    footer: Footer
    ranges: RangeSource
    facts: Sequence[tuple[RunFacts, ...]]


def copy_sources(file_io: FileIO, footers: Sequence[Footer], threads: int) -> Generator[CopySource]:
    """Yield the files of some footers, each open until the next one is asked for. With two threads the next
    file is read while this one is written, unless they are small files of a local disk: these cost more to
    parse, under the lock of Python, than to read. Raises SpliceRefusal where the pages of a file are not as
    its footer says.
    """
    if all(footer.path.startswith("/") for footer in footers):
        mean = sum(footer.size for footer in footers) / max(len(footers), 1)
        threads = threads if mean >= _LEAST_AHEAD else 1

    def examine(footer: Footer) -> CopySource:
        ranges = open_small_whole(file_io, footer.path)
        try:
            return CopySource(footer, ranges, examine_pages(ranges, footer))
        except BaseException:
            ranges.__exit__(None, None, None)
            raise

    for one in in_threads(examine, footers, threads):
        with one.ranges:
            yield one


class SplicedWriter:
    """It writes to as many files as needed; a file ends behind the input with which it is large enough.

    After a failure call `abort`: it removes every file that this writer created.
    """

    def __init__(self, file_io: FileIO, spec: FileSpec, now_ms: Callable[[], int]) -> None:
        self._file_io = file_io
        self._spec = spec
        self._now_ms = now_ms
        self._schema = arrow_schema(spec.row_type)
        self._index = spec.first_index
        self._sequence = spec.first_sequence
        self._current: _OpenFile | None = None
        self._files: list[SplicedFile] = []
        self._paths: list[str] = []

    def copy(self, number: int, source: CopySource, file: DataFile, schema: TableSchema) -> None:
        """Append all row groups of the input `number`, which the manifest entry `file` describes."""
        footer = source.footer
        current = self._add(number, source.ranges, footer, source.facts)
        current.summary.add_file(file)
        current.bounds.add(footer.rows, recorded_bounds(file, schema.row_type))
        if self._spec.keyed:
            current.key_bounds.add(footer.rows, recorded_key_bounds(file, schema.key_type))
        self._roll_if_full()

    def encode(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Append rows. Raises SpliceRefusal where the file so far does not mix with what this release
        writes.
        """
        block = self._block()
        for batch in batches:
            block.writer.write(stored_columns(batch, self._schema))
            block.summary.add(batch)
            if block.writer.size_estimate >= _MOST_BYTES:
                self._add_encoded(block)
                block = self._block()
        if block.summary.row_count:
            self._add_encoded(block)

    def close(self) -> tuple[SplicedFile, ...]:
        """Finish the last file. It returns the files in the order in which they were written."""
        self._roll()
        return tuple(self._files)

    def abort(self) -> None:
        """Remove everything that this writer created; it may be repeated. What storage refuses to remove is
        logged.
        """
        paths, self._paths = self._paths, []
        self._files.clear()
        current, self._current = self._current, None
        remove_created(self._file_io, [] if current is None else [(current.name, current.writer)], paths)

    def _block(self) -> _Block:
        options = WriterOptions.from_options(self._spec.options, self._spec.rules.compression)
        memory = _Memory()
        return _Block(memory, ParquetWriter(memory, self._schema, options), self._summary())

    def _summary(self) -> FileSummary:
        spec = self._spec
        return FileSummary(spec.bounds_type) if spec.keyed else FileSummary(None, self._sequence)

    def _add_encoded(self, block: _Block) -> None:
        written = block.writer.close()
        source = BytesSource(bytes(block.memory.data))
        footer = read_splice_footer(source, "encoded rows")
        first = None if self._current is None else self._current.writer.first
        reason = None if first is None else mixing_refusal(footer, first)
        if reason is not None:
            raise SpliceRefusal(reason, "rows that were encoded")
        current = self._add(None, source, footer)
        current.summary.join(block.summary)
        current.bounds.add(footer.rows, written.column_bounds)
        current.key_bounds.add(footer.rows, written.column_bounds)
        self._roll_if_full()

    def _add(
        self,
        origin: int | None,
        source: RangeSource,
        footer: Footer,
        facts: Sequence[tuple[RunFacts, ...]] | None = None,
    ) -> _OpenFile:
        if self._current is None:
            self._current = self._open()
        current = self._current
        current.writer.add(source, footer, facts)
        current.origins += [origin] * len(footer.groups)
        return current

    def _roll_if_full(self) -> None:
        if self._current is not None and self._current.writer.size >= self._spec.target_size:
            self._roll()

    def _open(self) -> _OpenFile:
        spec = self._spec
        name = f"{spec.name_prefix}-{self._index}{spec.infix}.{spec.rules.extension}"
        path = spec.path(name)
        self._index += 1
        self._paths.append(path)
        writer = SpliceWriter(self._file_io.open_output(path))
        return _OpenFile(name, writer, self._summary())

    def _roll(self) -> None:
        """Finish the open file, which `abort` knows until it is whole."""
        current = self._current
        if current is None:
            return
        bounds = dict(current.bounds.finish()) | {
            name: bound for name, bound in current.key_bounds.finish().items() if name.startswith(KEY_PREFIX)
        }
        written = WrittenFile(current.writer.close(), current.writer.rows, bounds)
        created = local_ms(self._now_ms())  # rule of the format, see RollingWriter
        file = data_file(self._spec, current.name, written, current.summary, created)
        self._files.append(SplicedFile(file, tuple(current.origins)))
        self._sequence += written.rows
        self._current = None


@dataclass(slots=True)
class _OpenFile:
    name: str
    writer: SpliceWriter
    summary: FileSummary
    bounds: MergedBounds = field(default_factory=MergedBounds)
    key_bounds: MergedBounds = field(default_factory=MergedBounds)
    origins: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    """Rows that are encoded in memory."""

    memory: _Memory
    writer: ParquetWriter
    summary: FileSummary


@dataclass(slots=True)
class _Memory:
    """A file in memory, as an output (`OutputFile`)."""

    path: str = "encoded rows"
    closed: bool = False
    data: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)

    def tell(self) -> int:
        return len(self.data)

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.data.clear()


def encoded_footer(spec: FileSpec) -> Footer:
    """Return the footer of a file without rows, as this release writes it: others must mix with it."""
    memory = _Memory()
    options = WriterOptions.from_options(spec.options, spec.rules.compression)
    writer = ParquetWriter(memory, arrow_schema(spec.row_type), options)
    writer.close()
    return read_splice_footer(BytesSource(bytes(memory.data)), "encoded rows", empty=True)
