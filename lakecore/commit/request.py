"""This module has the request and the result of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore

__all__ = ["CommitRequest", "CommitResult", "Examine", "Overwrite", "Preconditions", "RowsRead"]

Examine = Callable[[Snapshot, Snapshot | None, ManifestStore], None]
"""It examines a snapshot before it is published, together with the snapshot that it is built on, and
raises to prevent the publication.
"""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """An overwriting commit replaces these partitions."""

    partitions: tuple[Mapping[str, Any], ...] | None
    """Partial partition values by column name (internal values); a partition that agrees with any of them is
    replaced. An empty mapping agrees with every partition. None means the partitions of the new files.
    """
    append_elsewhere: bool = False
    """New files of other partitions are added to what these partitions have."""

    @classmethod
    def table(cls) -> Overwrite:
        """Replace all partitions."""
        return cls(({},))

    @classmethod
    def static(cls, *partitions: Mapping[str, Any]) -> Overwrite:
        """Replace these partitions, even without new files for them. New files of other partitions are
        refused.
        """
        return cls(partitions)

    @classmethod
    def dynamic(cls) -> Overwrite:
        """Replace the partitions of the new files."""
        return cls(None)


class RowsRead(Protocol):
    """These are the rows of one snapshot from which rows of the commit were made."""

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the snapshot; None means an empty table."""

    def changed_by(self, newer: Sequence[Snapshot | None]) -> Iterator[Snapshot | None]:
        """Yield those of the later snapshots that may have changed the rows; None stands for an expired
        one.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """This state determined where rows were placed; the commit conflicts when it has changed."""

    hash_indexes: Mapping[bytes, frozenset[str]] | None = None
    """These are the names of all hash index files of these partitions."""
    read_snapshot: Snapshot | None = None
    """The rows of this snapshot were read; None means an empty table."""
    whole_table: bool = False
    """If it is True, commits after `read_snapshot` that bring rows are conflicts; compactions are not."""
    same_counts: bool = False
    """If it is True, the commit conflicts where a partition has another bucket count than its new files were
    made for, or would get another one from the table's options.
    """
    one_bucket_count: bool = False
    """The commit conflicts where a partition would have files of several bucket counts afterwards, also in an
    overwriting snapshot.
    """
    rows_read: RowsRead | None = None
    """If these are given, the commit conflicts with later snapshots that may have changed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The request says who commits, and how. The pair (user, identifier) names the commit: a repeated pair
    is the same commit.
    """

    user: str
    identifier: int
    """BATCH_IDENTIFIER distinguishes nothing: a repetition by a new process is then not noticed."""
    overwrite: Overwrite | None = None
    watermark: int | None = None
    """This is the watermark in milliseconds."""
    properties: Mapping[str, str] = field(default_factory=dict)
    check_append: bool = False
    """Plain appends are checked for conflicts, too."""
    preconditions: Preconditions | None = None
    """The written rows (not the compacted ones) depend on this state."""
    allow_empty: bool = False
    """A commit without any change publishes a snapshot."""
    examine: Examine | None = None
    """It is called before each publication, when everything that the snapshot names is written."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """This is the result of a commit."""

    snapshot_ids: tuple[int, ...] = ()
    """The ids of the snapshots of this commit: data first, then compaction; empty when there was nothing to
    do.
    """
    duplicate: bool = False
    """An earlier run of the same commit had published all of them; no file of this run is part of the
    table.
    """
    compaction_conflict: CommitConflictError | None = None
    """The data was committed, but the compaction that came with it no longer fitted; its new files are not
    part of the table.
    """
    notes: tuple[str, ...] = ()
    """They say what became of snapshots that other writers replaced."""
