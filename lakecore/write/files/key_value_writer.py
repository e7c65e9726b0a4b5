"""This module writes rows of one bucket of a primary-key table: sorted, one row per key, numbered, into level
0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.encoders import Encoders
from lakecore.fs.file_io import FileIO
from lakecore.merge.groups import Engine
from lakecore.merge.sorted_merge import MergeSpec
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.write.files.blob_packs import BlobPacks
from lakecore.write.files.rolling import FileSpec, RollingWriter
from lakecore.write.rows.incoming import Rows
from lakecore.write.rows.sort_buffer import SortBuffer, SortedRows
from lakecore.write.rows.spill import Spill

__all__ = ["KeyValueSpec", "KeyValueWriter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueSpec:
    """These are the files of one bucket, and how rows of one key are merged."""

    files: FileSpec
    changelog: FileSpec | None
    """None: no changelog files; else every incoming row is written there, too (changelog-producer=input)."""
    sequence_fields: tuple[str, ...]
    descending: bool = False
    """If it is True, the lowest sequence fields win, not the highest."""
    first_sequence: int
    """This is the sequence number of the first row."""
    spillable: bool
    """A full buffer is spilled to disk, not flushed to level 0."""
    at_once: bool = False
    """No key may be in two files of one commit, which would have no order (sequence.snapshot-ordering), so
    all rows are spilled; files are described by the first number alone, since the commit assigns theirs.
    """
    engine: Engine | None = None
    """The merge engine; None: the last row wins. With an engine rows are spilled only if `at_once` or
    `one_flush`, and then unmerged: merging in passes would change the result.
    """
    one_flush: bool = False
    """No key may be in two files of one commit, but sequence numbers are those of rows."""

    @property
    def key_names(self) -> tuple[str, ...]:
        return self.files.schema.trimmed_primary_keys


class KeyValueWriter:
    """It writes one bucket. A flush writes disjoint files; a buffer that may spill is flushed once, at
    `close`.
    """

    def __init__(
        self,
        file_io: FileIO,
        spill_io: FileIO,
        spec: KeyValueSpec,
        now_ms: Callable[[], int],
        packs: BlobPacks | None = None,
        encoders: Encoders | None = None,
    ) -> None:
        """Open the writer. `packs` receives the blobs of a table that has some; `encoders` encode files while
        the caller sorts and merges.
        """
        self._packs = packs
        self._encoders = encoders
        self._file_io = file_io
        self._spec = spec
        self._now_ms = now_ms
        self._sequence = spec.first_sequence
        self._buffer = SortBuffer(spec.key_names, spec.sequence_fields, descending=spec.descending)
        merge = MergeSpec(
            key_columns=spec.key_names,
            sequence_columns=spec.sequence_fields,
            descending=spec.descending,
            engine=spec.engine,
        )
        self._spill = Spill(spill_io, merge)
        self._writers: list[RollingWriter] = []
        self._files: list[DataFile] = []
        self._changelog: RollingWriter | None = None
        self._flushing: RollingWriter | None = None
        self._is_merged = False

    @property
    def buffered(self) -> int:
        """Return the bytes that `relieve` would free."""
        return self._buffer.size

    @property
    def holds_file(self) -> bool:
        """Return whether `close_open_files` would close a file: packs of blobs, and the last file of a flush
        that other threads encode. The changelog of a spilled buffer stays open.
        """
        return self._flushing is not None or (self._packs is not None and self._packs.holds_file)

    def close_open_files(self) -> None:
        """Close the packs of blobs and the last file of a flush."""
        if self._packs is not None:
            self._packs.close()
        self._end_flush()

    def write(self, rows: Rows) -> None:
        """Add rows. Every row takes the next sequence number, whatever its sequence fields say."""
        rows = rows if self._packs is None else self._packs.written(rows)
        self._buffer.add(rows, self._sequence)
        self._sequence += rows.batch.num_rows

    def empty_buffer(self) -> None:
        """Empty the buffer: to a sorted run on local disk, or to files where spilling is switched off."""
        spec = self._spec
        if spec.at_once or spec.one_flush or (spec.spillable and spec.engine is None):
            self._spill_buffer()
        else:
            self._flush(self._merge())

    def _spill_buffer(self) -> None:
        rows = self._sort()
        if rows is not None:
            self._spill.add(rows.merged() if self._spec.engine is None else rows.raw())

    def begin_close(self) -> None:
        """Sort and merge all rows, and begin to encode the last of them where another thread does that;
        `close` must follow.
        """
        if self._is_merged:
            return
        self._is_merged = True
        self.close_open_files()
        if self._spill:
            self.empty_buffer()
            self._flush(self._spill.merged())
            self._spill.clear()
        else:
            self._flush(self._merge())
        if self._changelog is not None:
            self._changelog.begin_close()

    def close(self) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Finish the files. It returns (data files, changelog files) of all rows."""
        self.begin_close()
        self._end_flush()
        changelog = () if self._changelog is None else self._changelog.close()
        return tuple(map(self._describe, self._files)), changelog

    def abort(self) -> None:
        """Remove every file. It may follow `close`."""
        self._spill.clear()
        for writer in self._writers:
            writer.abort()
        if self._packs is not None:
            self._packs.abort()

    def _merge(self) -> Iterator[pa.RecordBatch]:
        rows = self._sort()
        return iter(()) if rows is None else rows.merged(self._spec.engine)

    def _sort(self) -> SortedRows | None:
        """Drain the buffer; incoming rows go to the changelog on the way, before rows of a key become one."""
        drained = self._buffer.drain()
        if drained is None or self._spec.changelog is None:
            return drained
        if self._changelog is None:
            self._changelog = self._open(self._spec.changelog)
        for batch in drained.raw():
            self._changelog.write(batch)
        return drained

    def _describe(self, file: DataFile) -> DataFile:
        first = self._spec.first_sequence
        if not self._spec.at_once:
            return file
        return replace(file, min_sequence_number=first, max_sequence_number=first)

    def _flush(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write sorted rows to new files. The last one is closed at once without encoders, otherwise by
        `_end_flush`: its rows are being encoded, and not held by this writer.
        """
        self._end_flush()
        writer = self._flushing = self._open(self._spec.files)
        for batch in batches:
            writer.write(batch)
        started = self._spec.files.first_index + writer.files_started
        self._spec = replace(self._spec, files=replace(self._spec.files, first_index=started))
        if self._encoders is None:
            self._end_flush()
        else:
            writer.begin_close()

    def _end_flush(self) -> None:
        if self._flushing is not None:
            self._files.extend(self._flushing.close())
            self._flushing = None

    def _open(self, files: FileSpec) -> RollingWriter:
        writer = RollingWriter(self._file_io, files, self._now_ms, encoders=self._encoders)
        self._writers.append(writer)
        return writer
