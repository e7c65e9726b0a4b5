"""Deletion vectors kept up with what picks do: those of rewritten files go, the others stay, and rows that
picks replaced in files that stay are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from pyroaring import BitMap

from lakecore.compact.engine.outcome import ProvenPick
from lakecore.compact.engine.work import Place, UnitTable
from lakecore.data_class import dataclass
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, DeletionFile, IndexFile
from lakecore.store.indexes import IndexStore, load_deletions
from lakecore.store.vector_files import replace_vectors
from lakecore.verify.proof.vector_check import VectorChange

__all__ = ["VectorDraft", "VectorUpdates", "counted"]

Bucket = tuple[bytes, int]


def counted(table: UnitTable, vector: DeletionFile) -> DeletionFile:
    """Return the deletion file with the number of deleted rows, which old writers do not record."""
    if vector.place.cardinality is not None:
        return vector
    count = len(load_deletions(table.reading.file_io, vector))
    return replace(vector, place=replace(vector.place, cardinality=count))


@dataclass(frozen=True, slots=True)
class VectorDraft:
    """These are the index files of one attempt to commit. `added` were written, `removed` may be deleted
    when the commit is done.

    `changes` has what was read before and after, of every bucket of the picks.
    """

    messages: tuple[CommitMessage, ...] = ()
    changes: Mapping[Place, VectorChange] = field(default_factory=dict)

    @property
    def added(self) -> tuple[IndexFile, ...]:
        return tuple(file for message in self.messages for file in message.compact_new_index_files)

    @property
    def removed(self) -> tuple[IndexFile, ...]:
        return tuple(file for message in self.messages for file in message.compact_deleted_index_files)


@dataclass(slots=True)
class _Changes:
    """The picks of one bucket replace `removed_files` and delete the rows of `marks`."""

    removed_files: set[str] = field(default_factory=set)
    marks: dict[str, BitMap] = field(default_factory=dict)

    def add(self, proven: ProvenPick) -> None:
        self.removed_files.update(file.file_name for file in proven.pick.replaced)
        for name, positions in proven.marks.items():
            self.marks[name] = self.marks.get(name, BitMap()) | BitMap.deserialize(positions)


@dataclass(slots=True)
class VectorUpdates:
    """These are the deletion vectors of a table as a run read them, with its changes since.

    `one_per_bucket`: rule of the format for all tables but those with unaware buckets.
    """

    store: IndexStore
    one_per_bucket: bool
    files: dict[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: IndexStore, files: Iterable[IndexFile], *, one_per_bucket: bool) -> VectorUpdates:
        """Return the vectors of a snapshot. `files` are all its index files; picks were planned from it."""
        upkeep = cls(store, one_per_bucket)
        for file in files:
            if file.index_type == DELETION_VECTORS:
                bucket = (file.partition, file.bucket)
                upkeep.files[bucket] = (*upkeep.files.get(bucket, ()), file)
        return upkeep

    def draft(self, picks: Sequence[ProvenPick]) -> VectorDraft:
        """Write the index files that must come with `picks`. A failure leaves none behind."""
        changes: dict[Place, _Changes] = {}
        for proven in picks:
            changes.setdefault(proven.pick.place, _Changes()).add(proven)
        messages: list[CommitMessage] = []
        drafts: dict[Place, VectorChange] = {}
        try:
            for place, change in changes.items():
                new, old = self._replace(place, change)
                if old or new:
                    messages.append(_message(place, new, old))
                drafts[place] = self._read(place, new, old)
        except BaseException:
            self.discard(VectorDraft(tuple(messages)))
            raise
        return VectorDraft(tuple(messages), drafts)

    def discard(self, draft: VectorDraft) -> None:
        """Delete the files of the draft, to which no snapshot refers, and none will."""
        self.store.discard(draft.added)

    def landed(self, draft: VectorDraft) -> None:
        """Record that the commit is done: later drafts start from its files."""
        removed = {file.file_name for file in draft.removed}
        for bucket in {(file.partition, file.bucket) for file in (*draft.added, *draft.removed)}:
            staying = (file for file in self.files.get(bucket, ()) if file.file_name not in removed)
            fresh = (file for file in draft.added if (file.partition, file.bucket) == bucket)
            self.files[bucket] = (*staying, *fresh)

    def _replace(self, place: Place, change: _Changes) -> tuple[tuple[IndexFile, ...], tuple[IndexFile, ...]]:
        """Return the new index files of a bucket, and those that they replace."""
        bucket = (place.partition, place.bucket)
        files = self.files.get(bucket, ())
        one = self.one_per_bucket
        return replace_vectors(
            self.store, bucket, files, change.removed_files, change.marks, one_per_bucket=one
        )

    def _read(self, place: Place, new: Sequence[IndexFile], old: Sequence[IndexFile]) -> VectorChange:
        """Return the vectors of index files that are added and removed, read from their bytes."""
        return VectorChange(
            before=self._vectors(old),
            after=self._vectors(new),
            new=new,
            live=self.files.get((place.partition, place.bucket), ()),
            removed=frozenset(file.file_name for file in old),
        )

    def _vectors(self, files: Iterable[IndexFile]) -> dict[str, BitMap]:
        return {name: rows for file in files for name, rows in self.store.read_vectors(file).items()}


def _message(place: Place, new: tuple[IndexFile, ...], old: tuple[IndexFile, ...]) -> CommitMessage:
    return CommitMessage(
        partition=place.partition,
        bucket=place.bucket,
        total_buckets=place.total_buckets,
        compact_new_index_files=new,
        compact_deleted_index_files=old,
    )
