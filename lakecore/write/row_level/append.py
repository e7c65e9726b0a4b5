"""This module applies a change to an append table: rows are deleted by vectors, or their files are written
anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.file.file_reader import read_file
from lakecore.scan.split import Split
from lakecore.store.indexes import load_deletions
from lakecore.write.row_level.changes import RowChange
from lakecore.write.row_level.counted_rows import RowCounts
from lakecore.write.update.row_deletion import DeletionDraft, RowDeletion

__all__ = ["AppendChange"]

Bucket = tuple[bytes, int]


@dataclass(frozen=True)
class AppendChange:
    """It iterates over the rows to append, and notes which rows or files they replace.

    It holds the rows of one data file. Where files are written anew, the rows of a file with a changed row
    are all appended, the others in their old form.
    """

    deletion: RowDeletion
    change: RowChange
    snapshot: Snapshot
    counts: RowCounts = field(default_factory=RowCounts)
    _marks: dict[Bucket, dict[str, BitMap]] = field(default_factory=lambda: defaultdict(dict))
    _files: dict[Bucket, list[DataFile]] = field(default_factory=lambda: defaultdict(list))
    _totals: dict[Bucket, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        reading = self.deletion.reading
        planned = self.deletion.scanner.plan(self.snapshot, reading.schema, predicate=self.change.predicate)
        for split in planned:
            for file in split.files:
                yield from self._rows_of(split, file)
        for batch in self.change.inserted():
            self.counts.inserted += batch.num_rows
            yield batch

    def _rows_of(self, split: Split, file: DataFile) -> Iterator[pa.RecordBatch]:
        with_vectors = self.deletion.reading.options.deletion_vectors
        rows, positions = [], BitMap()
        for batch, first, live in self._live_batches(split, file):
            changed = self.change.changes(batch)
            hits = changed.replaced.to_numpy(zero_copy_only=False)
            self.counts.updated += changed.updated.num_rows
            self.counts.deleted += changed.deleted.num_rows
            positions |= BitMap((live[hits] + first).astype(np.uint32))
            rows += [changed.updated] if with_vectors else [changed.updated, batch.filter(pa.array(~hits))]
        if not positions:
            return
        bucket = (split.partition, split.bucket)
        self._totals[bucket] = split.total_buckets
        if with_vectors:
            self._marks[bucket][file.file_name] = positions
        else:
            self._files[bucket].append(file)
        yield from (batch for batch in rows if batch.num_rows)

    def _live_batches(
        self, split: Split, file: DataFile
    ) -> Iterator[tuple[pa.RecordBatch, int, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
        """Yield the live rows of a file with the position of the batch, and the place of each row in it."""
        reading = self.deletion.reading.in_partition(split.partition)
        directory = reading.bucket_dir(split.partition, split.bucket)
        where = split.deletions_of.get(file.file_name)
        deleted = BitMap() if where is None else load_deletions(reading.file_io, where)
        first = 0
        for batch in read_file(reading, directory, file, reading.schema.row_type.names):
            live = np.ones(batch.num_rows, dtype=np.bool_)
            live[[row - first for row in deleted & BitMap(range(first, first + batch.num_rows))]] = False
            yield batch.filter(pa.array(live)), first, np.flatnonzero(live)
            first += batch.num_rows

    def drafts(self) -> DeletionDraft:
        """Write the vectors, and return the messages that go with the appended rows."""
        draft = self.deletion.draft(self.snapshot, self._marks, self._totals)
        removals = tuple(
            CommitMessage(
                partition=bucket[0],
                bucket=bucket[1],
                total_buckets=self._totals[bucket],
                deleted_files=tuple(files),
            )
            for bucket, files in self._files.items()
        )
        return DeletionDraft((*draft.messages, *removals), draft.rows)
