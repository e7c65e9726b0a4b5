"""This module puts a run's name into the names of its files, and finds what earlier attempts of the same name
committed and left behind.

A killed attempt leaves files that nobody committed. They may go once this attempt has committed: commits of
one name are numbered without gaps, so a predecessor that is still alive finds its number taken and gives up.
A file can be told to be uncommitted when every snapshot since it was made has been looked at.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable

from lakecore.commit.duplicates import LOOK_BACK
from lakecore.compact.engine.cleanup import Published, belongs, sweep
from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.lookup.lookup_files import flat_token
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.store.published import names_in
from lakecore.store.snapshots import SnapshotStore

__all__ = ["AttemptFiles", "EarlierCommits", "earlier_commits"]

logger = logging.getLogger(__name__)

_DIGITS = 16
_CLOCK_MARGIN_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class EarlierCommits:
    """These are the snapshots of a run's name and kind, oldest first. Every snapshot later than `since_ms`
    was looked at.
    """

    snapshots: tuple[Snapshot, ...] = ()
    since_ms: int = 0

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(snapshot.id for snapshot in self.snapshots)

    def next_identifier(self, first: int) -> int:
        """Return the identifier of the next commit of a run that begins with `first`."""
        return max((snapshot.commit_identifier + 1 for snapshot in self.snapshots), default=first)


def earlier_commits(
    snapshots: SnapshotStore,
    latest: Snapshot,
    user: str,
    identifiers: range,
    kind: CommitKind = CommitKind.COMPACT,
) -> EarlierCommits:
    """Return what `user` committed under `identifiers`. It costs at most LOOK_BACK reads of snapshots."""
    commits: list[Snapshot] = []
    at: Snapshot | None = latest
    since = latest.time_millis
    for _ in range(LOOK_BACK):
        if at is None:
            break
        since = at.time_millis
        if at.commit_user == user and at.commit_identifier in identifiers and at.commit_kind is kind:
            commits.append(at)
        if at.id == 1:
            since = 0
            break
        at = snapshots.find(at.id - 1)
    return EarlierCommits(tuple(reversed(commits)), since)


@dataclass(frozen=True, slots=True)
class AttemptFiles:
    """The names of files of one attempt begin with one of `own`, those of all attempts of a run with one
    of `shared`: first as data files, then as changelog files.
    """

    shared: tuple[str, ...]
    own: tuple[str, ...]

    @classmethod
    def of(cls, prefixes: tuple[str, ...], name: tuple[str, str, int], fresh_id: str) -> AttemptFiles:
        """Return the names of a new attempt. `prefixes` are those of the table's files by kind; `name` has
        the table root, user and identifier of the run.
        """
        digest = hashlib.sha256("\0".join(map(str, name)).encode()).hexdigest()[:_DIGITS]
        shared = tuple(f"{prefix}{digest}-" for prefix in prefixes)
        return cls(shared, tuple(prefix + fresh_id.replace("-", "")[:_DIGITS] for prefix in shared))

    def remove_older(
        self,
        manifests: ManifestStore,
        directories: Iterable[str],
        earlier: EarlierCommits,
        published: Published,
    ) -> int:
        """Delete what earlier attempts did not commit. Only after a commit of this attempt.

        Files older than the snapshots that were looked at are left alone. It costs a listing of each
        directory.
        """
        return self._remove(manifests, directories, earlier, published, _is_of)

    def remove_older_indexes(
        self,
        manifests: ManifestStore,
        directories: Iterable[str],
        earlier: EarlierCommits,
        published: Published,
    ) -> int:
        """Remove the index files of older attempts; their names begin with that of their data file
        (`index_token`).
        """
        return self._remove(
            manifests,
            directories,
            earlier,
            published,
            _names_token,
        )

    def has(self, name: str) -> bool:
        """Return whether a file is one that this attempt made."""
        return _is_of(name, self.own)

    @property
    def index_token(self) -> str:
        """Return what is in the names of the index files of one attempt."""
        return flat_token(self.own[0])

    def _remove(
        self,
        manifests: ManifestStore,
        directories: Iterable[str],
        earlier: EarlierCommits,
        published: Published,
        has: Callable[[str, tuple[str, ...]], bool],
    ) -> int:
        try:
            names = names_in(manifests, earlier.snapshots)
        except LakeError as err:
            logger.warning("files of earlier attempts are kept: %s", err)
            return 0
        newer_than = earlier.since_ms + _CLOCK_MARGIN_MS if earlier.since_ms else 0

        def is_debris(name: str, mtime_ms: int) -> bool:
            mine = has(name, self.shared) and not has(name, self.own)
            return mine and not belongs(name, names) and mtime_ms >= newer_than

        return sweep(manifests.file_io, directories, is_debris, published)


def _is_of(name: str, tokens: tuple[str, ...]) -> bool:
    """Return whether a data or changelog file, or a lookup file beside a file that moved, has one of `tokens`
    in its name.
    """
    return name.startswith(tokens) or _names_token(name, tokens)


def _names_token(name: str, tokens: tuple[str, ...]) -> bool:
    return f".{flat_token(tokens[0])}" in name
