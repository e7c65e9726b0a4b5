"""This module deletes rows of append tables: the rows that match a condition become deletion vectors.

The data files stay as they are. Rule of the format: vectors are merged with earlier deletions, and index
files with a changed vector are replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from lakecore.commit.request import CommitResult
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.metadata.manifest.row_range import row_ranges
from lakecore.metadata.options import BucketMode
from lakecore.metadata.row_kind import ROW_ID_NAME
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file
from lakecore.read.split.joined_rows import JoinedRows, read_joined
from lakecore.scan.scanner import Scanner
from lakecore.scan.split import Split
from lakecore.store.indexes import IndexStore, load_deletions
from lakecore.store.vector_files import replace_vectors
from lakecore.write.update.conflict_retry import retry_on_conflict

__all__ = ["DeletedRows", "DeletionDraft", "RowDeletion"]

CommitFunction = Callable[[Sequence[CommitMessage]], CommitResult]
Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """It says how many rows a deletion removed, and has its commit: without a snapshot when no row
    matched.
    """

    rows: int
    commit: CommitResult


@dataclass(frozen=True, slots=True)
class DeletionDraft:
    """These are the messages of a deletion, whose index files nothing names yet, and how many rows it
    deletes.
    """

    messages: tuple[CommitMessage, ...]
    rows: int

    @property
    def added(self) -> list[IndexFile]:
        """Return the new index files."""
        return [file for message in self.messages for file in message.new_index_files]


@dataclass(frozen=True)
class RowDeletion:
    """It deletes from one table. It holds the condition's columns of a batch, and a bit per deleted row."""

    scanner: Scanner
    reading: ReadContext

    @property
    def indexes(self) -> IndexStore:
        return self.scanner.stores.indexes

    def run(self, predicate: Predicate, commit: CommitFunction) -> DeletedRows:
        """Delete the rows for which `predicate` is true, in one snapshot.

        When other commits change files or vectors meanwhile, the rows are looked up again. Raises
        UnavailableError or CommitConflictError when all retries fail, CommitUncertainError.
        """

        def attempt(snapshot: Snapshot | None) -> DeletedRows:
            draft = self._draft(snapshot, predicate)
            return DeletedRows(draft.rows, self.commit(draft, commit))

        return retry_on_conflict(self.scanner.stores, attempt)

    def commit(self, draft: DeletionDraft, commit: CommitFunction) -> CommitResult:
        """Commit a draft; its index files are removed again unless they are, or may be, in the table."""
        if not draft.messages:
            return CommitResult()
        try:
            result = commit(draft.messages)
        except CommitUncertainError:
            raise
        except LakeError:
            self.indexes.discard(draft.added)
            raise
        if result.duplicate:
            self.indexes.discard(draft.added)
        return result

    def _draft(self, snapshot: Snapshot | None, predicate: Predicate) -> DeletionDraft:
        """Find the rows and write their vectors. A failure leaves no index file behind."""
        if snapshot is None:
            return DeletionDraft((), 0)
        marks: dict[Bucket, dict[str, BitMap]] = defaultdict(dict)
        totals: dict[Bucket, int] = {}
        for split in self.scanner.plan(snapshot, self.reading.schema, predicate=predicate):
            for name, rows in self._matches(split, predicate).items():
                marks[split.partition, split.bucket][name] = rows
                totals[split.partition, split.bucket] = split.total_buckets
        return self.draft(snapshot, marks, totals)

    def draft(
        self, snapshot: Snapshot, marks: Mapping[Bucket, dict[str, BitMap]], totals: Mapping[Bucket, int]
    ) -> DeletionDraft:
        """Write vectors for the positions of rows, by bucket and file. A failure leaves no index file behind.

        `totals` are the numbers of buckets, by bucket.
        """
        messages: list[CommitMessage] = []
        before = self._vectors(snapshot) if marks else {}
        try:
            for bucket, bitmap in marks.items():
                messages.append(self._message(bucket, totals[bucket], before.get(bucket, []), bitmap))
        except BaseException:
            self.indexes.discard(DeletionDraft(tuple(messages), 0).added)
            raise
        count = sum(len(rows) for files in marks.values() for rows in files.values())
        return DeletionDraft(tuple(messages), count)

    def _matches(self, split: Split, predicate: Predicate) -> dict[str, BitMap]:
        """Return the positions of the live rows that match, for the files that have any."""
        out = {}
        reading = self.reading.in_partition(split.partition)
        directory = reading.bucket_dir(split.partition, split.bucket)
        if reading.options.data_evolution:
            return _joined_matches(reading, directory, split, predicate)
        columns = sorted(columns_of(predicate)) or [self.reading.schema.fields[0].name]
        for file in split.files:
            deletion = split.deletions_of.get(file.file_name)
            rows = BitMap()
            start = 0
            for batch in read_file(reading, directory, file, columns):
                hits = mask(predicate, batch).fill_null(False).to_numpy(zero_copy_only=False)
                rows |= BitMap((np.flatnonzero(hits) + start).astype(np.uint32))
                start += batch.num_rows
            if rows and deletion is not None:
                rows -= load_deletions(self.reading.file_io, deletion)
            if rows:
                out[file.file_name] = rows
        return out

    def _vectors(self, snapshot: Snapshot) -> dict[Bucket, list[IndexFile]]:
        out: dict[Bucket, list[IndexFile]] = defaultdict(list)
        for file in self.scanner.index_files(snapshot):
            if file.index_type == DELETION_VECTORS:
                out[file.partition, file.bucket].append(file)
        return out

    def _message(
        self, bucket: Bucket, total_buckets: int, before: Sequence[IndexFile], marks: dict[str, BitMap]
    ) -> CommitMessage:
        unaware = self.reading.options.bucket_mode is BucketMode.BUCKET_UNAWARE
        new, old = replace_vectors(self.indexes, bucket, before, (), marks, one_per_bucket=not unaware)
        return CommitMessage(
            partition=bucket[0],
            bucket=bucket[1],
            total_buckets=total_buckets,
            new_index_files=new,
            deleted_index_files=old,
        )


def _joined_matches(
    reading: ReadContext, directory: str, split: Split, predicate: Predicate
) -> dict[str, BitMap]:
    """Return the matches among rows whose columns are stored in several files.

    Rule of the format: the vector of a range of rows belongs to its oldest ordinary file.
    """
    deletions = {name: load_deletions(reading.file_io, where) for name, where in split.deletions_of.items()}
    columns = [*sorted(columns_of(predicate)), ROW_ID_NAME]
    matches: dict[str, BitMap] = {}
    for rows in row_ranges(split.files):
        ids = BitMap()
        for batch in read_joined(reading, directory, rows.files, columns, JoinedRows(deletions, predicate)):
            hits = batch.column(ROW_ID_NAME).filter(mask(predicate, batch)).to_numpy(zero_copy_only=False)
            ids |= BitMap((hits - rows.first).astype(np.uint32))
        if ids:
            matches[rows.anchor.file_name] = ids
    return matches
