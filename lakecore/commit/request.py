"""What a caller asks of a commit, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakecore.errors import CommitConflictError
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.manifests import ManifestStore

__all__ = ["CommitRequest", "CommitResult", "Examine", "Overwrite", "Unchanged"]

Examine = Callable[[Snapshot, Snapshot | None, ManifestStore], None]
"""Looks at a snapshot before it is published, and at the one that it is built on. Raises to prevent it."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """What an overwriting commit replaces.

    `partitions`: partial partition values by column name (internal values); a partition that agrees with any
    of them is replaced. An empty mapping agrees with every partition. None: the partitions of the new files.
    `beside`: new files of other partitions are added to what these have.
    """

    partitions: tuple[Mapping[str, Any], ...] | None
    beside: bool = False

    @classmethod
    def table(cls) -> Overwrite:
        """Replace everything."""
        return cls(({},))

    @classmethod
    def static(cls, *partitions: Mapping[str, Any]) -> Overwrite:
        """Replace these partitions, also where nothing new is written. New files elsewhere are refused."""
        return cls(partitions)

    @classmethod
    def dynamic(cls) -> Overwrite:
        """Replace the partitions that new files are written to."""
        return cls(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """What rows were placed by; where it is no longer so, the commit conflicts.

    `hash_files`: names of all hash index files of these partitions. `rows_of`: the snapshot whose keys were
    looked at (None for an empty table); commits after it that bring rows conflict, compactions do not. Counts
    only when `whole_table`. `counted`: the buckets of partitions were counted at `rows_of`; where they are
    of another number now, the commit conflicts. `one_count`: so it does where a partition would have files of
    several counts afterwards, also in an overwriting snapshot.
    """

    hash_files: Mapping[bytes, frozenset[str]] | None = None
    rows_of: Snapshot | None = None
    whole_table: bool = False
    counted: bool = False
    one_count: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Who commits, and how. The pair (user, identifier) names the commit: a repeated pair is the same one.

    `identifier`: BATCH_IDENTIFIER tells nothing apart; then a repetition by a new process is not noticed.
    `watermark`: milliseconds. `check_append`: look for conflicts in plain appends too. `unchanged`: what the
    written rows (not the compacted ones) count on. `even_empty`: a commit without any change is a snapshot.
    `examine`: called before each publication, when everything that the snapshot names is written.
    """

    user: str
    identifier: int
    overwrite: Overwrite | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    check_append: bool = False
    unchanged: Unchanged | None = None
    even_empty: bool = False
    examine: Examine | None = None


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Ids of the snapshots of this commit: data first, then compaction; none when there was nothing to do.

    `duplicate`: an earlier run of the same commit had published all of them; no file of this run is part of
    the table. `compaction_conflict`: the data landed, but the compaction that came with it no longer fitted;
    its new files are not part of the table. `notes`: what became of snapshots that other writers replaced.
    """

    snapshot_ids: tuple[int, ...] = ()
    duplicate: bool = False
    compaction_conflict: CommitConflictError | None = None
    notes: tuple[str, ...] = ()
