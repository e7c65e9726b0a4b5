"""This module decides when a universal compaction has to be a full one: `full-compaction.delta-commits`.

Paimon's writers compact all buckets fully at every so-many-th commit of theirs. A compaction that is a job of
its own counts the commits of everybody instead: what was written that many commits ago, or earlier, must not
lie above the last level any more.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping

from lakecore.compact.engine.strategy import Strategy
from lakecore.errors import NotFoundError
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import ChangelogProducer, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.scan.filters import ScanFilter
from lakecore.scan.scanner import Scanner
from lakecore.scan.time_travel import FULL_COMPACTION_COMMITS

__all__ = ["announces_nothing", "full_is_due", "of_a_writer", "waits_too_long"]

logger = logging.getLogger(__name__)

_Bucket = tuple[bytes, int]
_WRITES = (CommitKind.APPEND, CommitKind.OVERWRITE)


def of_a_writer(schema: TableSchema, options: TableOptions) -> Strategy:
    """Return the strategy that follows a write. Rule of the format: a full-compaction producer without the
    option compacts fully after every commit.
    """
    return Strategy.FULL if announces_nothing(schema, options) else Strategy.UNIVERSAL


def announces_nothing(schema: TableSchema, options: TableOptions) -> bool:
    """Return whether universal compactions may put off the changelog: no option says when a full one is
    due.
    """
    producer = options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    return producer and FULL_COMPACTION_COMMITS.read(schema.options) is None


def full_is_due(
    scanner: Scanner, schema: TableSchema, options: TableOptions, group_files: int = GROUP_FILES
) -> bool:
    """Return whether the table's option requires a full compaction now. It is False where the option is not
    set.

    It costs the reading of snapshots back to so many commits ago, and of the manifests of that one. Where it
    has expired, what lies above the last level is taken for old. A table of more than `group_files` files is
    looked at in groups of partitions of at most some so many.
    """
    commits = FULL_COMPACTION_COMMITS.read(schema.options)
    latest = scanner.stores.snapshots.latest()
    if commits is None or not schema.primary_keys or latest is None:
        return False
    levels = TreePolicy.from_options(schema.options, options.target_file_size).num_levels
    then: Snapshot | None = None
    if commits > 1:
        try:
            then = _commits_ago(scanner, latest, commits)
        except NotFoundError as err:
            logger.info("%s: the age of its files is unknown: %s", scanner.table, err)
        else:
            if then is None:
                return False
    groups = scanner.groups(latest, most=group_files, undivided=group_files)
    return any(_waits(scanner, latest, then, where, levels) for where in groups)


def _waits(scanner: Scanner, latest: Snapshot, then: Snapshot | None, where: ScanFilter, levels: int) -> bool:
    """Return whether some bucket of `where` has old files above its last level. They are all old for a
    snapshot `then` that is None, or has expired.
    """
    now = scanner.live_entries(latest, where)
    if then is None:
        return waits_too_long(now, None, levels)
    try:
        return waits_too_long(now, scanner.live_entries(then, where), levels)
    except NotFoundError as err:
        logger.info("%s: the age of its files is unknown: %s", scanner.table, err)
        return waits_too_long(now, None, levels)


def waits_too_long(now: ManifestEntries, then: ManifestEntries | None, levels: int) -> bool:
    """Return whether some bucket has files above its last level that it had `then` already (None: any such
    files).

    A bucket whose last level has changed since was compacted fully since: what lies above is younger.
    """
    present = _buckets(now, levels)
    if then is None:
        return any(loose for loose, _ in present.values())
    past = _buckets(then, levels)
    return any(
        loose and place in past and bool(past[place][0]) and past[place][1] == settled
        for place, (loose, settled) in present.items()
    )


def _buckets(
    entries: ManifestEntries, levels: int
) -> Mapping[_Bucket, tuple[frozenset[bytes], frozenset[bytes]]]:
    """Return the names of the files above the last level, and on it."""
    commits: dict[_Bucket, list[tuple[int, bytes]]] = defaultdict(list)
    names = entries.names()
    for row in range(len(entries)):
        bucket = int(entries.bucket[row])
        if bucket >= 0:
            place = entries.partition_of(row), bucket
            commits[place].append((int(entries.level[row]), names[row]))
    out = {}
    for place, files in commits.items():
        last = max(levels - 1, *(level for level, _ in files), 1)
        out[place] = (
            frozenset(name for level, name in files if level < last),
            frozenset(name for level, name in files if level == last),
        )
    return out


def _commits_ago(scanner: Scanner, latest: Snapshot, commits: int) -> Snapshot | None:
    """Return the snapshot of the n-th newest write (n = `commits`), or None where there never were so
    many.
    """
    commits_to_go = commits
    for snapshot_id in range(latest.id, 0, -1):
        snapshot = scanner.stores.snapshots.load(snapshot_id)
        commits_to_go -= snapshot.commit_kind in _WRITES
        if commits_to_go == 0:
            return snapshot
    return None
