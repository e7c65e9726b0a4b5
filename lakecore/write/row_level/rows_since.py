"""This module finds commits that came after a change of rows has read the table, and that have rows of the
keys which it writes: it would replace them unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.read.context import ReadContext
from lakecore.read.split.change_reader import read_changes
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.scan.split import Split
from lakecore.scan.stream_policy import ChangeKind
from lakecore.write.buckets.key_places import hash_keys

__all__ = ["RowsSince"]


@dataclass
class RowsSince:
    """These are the rows that others committed to a table with a primary key after `snapshot`, compared with
    those of the new files of `messages`.

    It costs nothing where no other commit has rows. Otherwise the keys of its files in the partitions of the
    messages are read, and those of the new files; in memory are 8 bytes for each row of one commit. Keys are
    compared by 64 bits of their hashes: two keys that agree in them only make the change run again, too.
    """

    scanner: ChangeScanner
    context: ReadContext
    snapshot: Snapshot | None
    messages: Sequence[CommitMessage]
    _harmless: set[tuple[int, str]] = field(default_factory=set)

    def changed_by(self, newer: Sequence[Snapshot | None]) -> Iterator[Snapshot | None]:
        """Yield the snapshots after the one that was read that have, or may have, changed rows of the keys:
        an overwrite, rows of these keys, and a snapshot that has expired (None) or whose files have.
        """
        for snapshot in newer:
            if snapshot is None or (not self._is_harmless(snapshot) and self._changes_rows(snapshot)):
                yield snapshot

    def _is_harmless(self, snapshot: Snapshot) -> bool:
        return snapshot.commit_kind.keeps_rows or _name(snapshot) in self._harmless

    def _changes_rows(self, snapshot: Snapshot) -> bool:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            return True
        partitions = {message.partition for message in self.messages}
        try:
            added = self.scanner.changes((snapshot,), ChangeKind.ADDED, postponed=True)
            theirs = [*self._hashes(split for split in added if split.partition in partitions)]
        except NotFoundError:
            return True
        if theirs:
            keys = np.unique(np.concatenate(theirs))
            if any(np.isin(own, keys).any() for own in self._hashes(self._own_splits())):
                return True
        self._harmless.add(_name(snapshot))
        return False

    def _own_splits(self) -> Iterator[Split]:
        for message in self.messages:
            yield Split(
                partition=message.partition,
                bucket=message.bucket,
                total_buckets=message.total_buckets,
                files=message.new_files,
                raw_convertible=False,
            )

    def _hashes(self, splits: Iterable[Split]) -> Iterator[npt.NDArray[np.uint64]]:
        schema = self.context.schema
        key_type = schema.row_type.select(schema.primary_keys)
        for split in splits:
            for batch in read_changes(self.context, split, schema.primary_keys):
                yield hash_keys(batch, key_type).high


def _name(snapshot: Snapshot) -> tuple[int, str]:
    return snapshot.id, snapshot.delta_manifest_list
