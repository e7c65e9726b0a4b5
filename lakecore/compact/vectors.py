"""Deletion vectors kept up with what picks do: those of rewritten files go, the others stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lakecore.compact.outcome import ProvenPick
from lakecore.compact.work import Place
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.index_file import DELETION_VECTORS, IndexFile
from lakecore.store.indexes import IndexStore
from lakecore.store.vector_files import replace_vectors

__all__ = ["VectorDraft", "VectorUpkeep"]

Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class VectorDraft:
    """Index files of one try of a commit. `added` were written, `removed` may go when the commit lands."""

    messages: tuple[CommitMessage, ...] = ()

    @property
    def added(self) -> tuple[IndexFile, ...]:
        return tuple(file for message in self.messages for file in message.compact_new_index_files)

    @property
    def removed(self) -> tuple[IndexFile, ...]:
        return tuple(file for message in self.messages for file in message.compact_deleted_index_files)


@dataclass(slots=True)
class VectorUpkeep:
    """The deletion vectors of a table as a run saw them, and changed them since.

    `one_per_bucket`: rule of the format for all tables but those with unaware buckets.
    """

    store: IndexStore
    one_per_bucket: bool
    files: dict[Bucket, tuple[IndexFile, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, store: IndexStore, files: Iterable[IndexFile], *, one_per_bucket: bool) -> VectorUpkeep:
        """`files`: all index files of the snapshot that picks were planned from."""
        upkeep = cls(store, one_per_bucket)
        for file in files:
            if file.index_type == DELETION_VECTORS:
                bucket = (file.partition, file.bucket)
                upkeep.files[bucket] = (*upkeep.files.get(bucket, ()), file)
        return upkeep

    def draft(self, picks: Sequence[ProvenPick]) -> VectorDraft:
        """Write the index files that must come with `picks`. A failure leaves none behind."""
        gone: dict[Place, set[str]] = {}
        for proven in picks:
            gone.setdefault(proven.pick.place, set()).update(file.file_name for file in proven.pick.replaced)
        messages: list[CommitMessage] = []
        try:
            for place, names in gone.items():
                messages += self._message(place, names)
        except BaseException:
            self.discard(VectorDraft(tuple(messages)))
            raise
        return VectorDraft(tuple(messages))

    def discard(self, draft: VectorDraft) -> None:
        """No snapshot refers to the files of the draft, and none will."""
        self.store.discard(draft.added)

    def landed(self, draft: VectorDraft) -> None:
        """The commit is done: later drafts start from its files."""
        removed = {file.file_name for file in draft.removed}
        for bucket in {(file.partition, file.bucket) for file in (*draft.added, *draft.removed)}:
            kept = (file for file in self.files.get(bucket, ()) if file.file_name not in removed)
            fresh = (file for file in draft.added if (file.partition, file.bucket) == bucket)
            self.files[bucket] = (*kept, *fresh)

    def _message(self, place: Place, gone: set[str]) -> list[CommitMessage]:
        bucket = (place.partition, place.bucket)
        new, old = replace_vectors(
            self.store, bucket, self.files.get(bucket, ()), gone, {}, one_per_bucket=self.one_per_bucket
        )
        if not old:
            return []
        return [
            CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=place.total_buckets,
                compact_new_index_files=new,
                compact_deleted_index_files=old,
            )
        ]
