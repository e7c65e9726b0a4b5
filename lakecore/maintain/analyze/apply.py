"""The ANALYZE snapshot: it has the same files, and a statistics file that describes their rows; and how the
statistics are read again.
"""

from __future__ import annotations

from dataclasses import replace

from lakecore.commit.author import Author
from lakecore.commit.publication import publish
from lakecore.commit.support import check_committable
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    CorruptDataError,
    InvalidInputError,
    LakeError,
    reason,
)
from lakecore.maintain.analyze.statistics import Statistics
from lakecore.maintain.target import Target, discard_files
from lakecore.metadata.json_record import json_object
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.table_stores import TableStores

__all__ = ["commit_statistics", "read_statistics", "update_statistics"]

_TRIES = 10


def read_statistics(stores: TableStores) -> Statistics | None:
    """Return the statistics that the latest snapshot has, or took over from the one before; None without any.

    Raises CorruptDataError for a file that has none.
    """
    latest = stores.snapshots.latest()
    if latest is None or latest.statistics is None:
        return None
    path = stores.paths.statistics(latest.statistics)
    try:
        return Statistics.from_json(json_object(stores.file_io.read(path)))
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise CorruptDataError(path, f"not statistics: {reason(err)}") from err


def update_statistics(name: str, stores: TableStores, statistics: Statistics, author: Author) -> int:
    """Commit statistics that the caller computed, in place of those there are, and return the id of the new
    snapshot: an earlier one if this author committed it.

    Raises InvalidInputError for statistics that do not fit the schema or name no snapshot of the table, and
    as `commit_statistics`.
    """
    target = Target(name, stores.paths.table_path.rsplit("/", 2)[0], stores)
    checked = statistics.of_table(target.schema)
    if target.snapshots.find(statistics.snapshot_id) is None:
        raise InvalidInputError(
            f"{name}: there is no snapshot {statistics.snapshot_id}, of which the statistics are; "
            "name one that has not expired"
        )
    landed = author.landed(target.snapshots, CommitKind.ANALYZE)
    return commit_statistics(target, checked, author) if landed is None else landed.id


def commit_statistics(target: Target, statistics: Statistics, author: Author) -> int:
    """Commit the statistics and return the id of the new snapshot. Others may commit meanwhile: the
    statistics name the snapshot that they describe.

    Raises CommitConflictError when the schema has changed, or when other commits won every time; then no file
    is left. Raises CommitUncertainError as a commit does.
    """
    check_committable(target.schema)
    name = f"stat-{target.clock.fresh_id()}-0"
    path = target.paths.statistics(name)
    target.file_io.write_new(path, statistics.to_json().encode())
    unnamed = [path]
    try:
        return _commit(target, statistics, name, author, unnamed)
    except CommitUncertainError:
        raise
    except LakeError:
        discard_files(target, unnamed)
        raise


def _commit(target: Target, statistics: Statistics, name: str, author: Author, unnamed: list[str]) -> int:
    """Return the id of the new snapshot. `unnamed` loses the statistics file once a snapshot that names it
    has existed.
    """
    for retry in range(_TRIES):
        latest, schema = target.snapshots.latest(), target.schemas.latest()
        if latest is None or schema is None or schema.id != statistics.schema_id or _is_another(target):
            raise CommitConflictError(f"{target.name} was changed while it was being analyzed; run again")
        lists: list[str] = []
        try:
            planned = _draft(target, latest, lists)
            planned = replace(
                planned,
                schema_id=schema.id,
                commit_user=author.user,
                commit_identifier=author.number,
                statistics=name,
            )
            publication = publish(target.snapshots, planned, latest, target.settle_ms, retry)
            if publication.published:
                return planned.id
            if publication.replaced:  # somebody may be building on it
                lists.clear()
                unnamed.clear()
        except CommitUncertainError:
            raise
        except LakeError:
            discard_files(target, lists)
            raise
        discard_files(target, lists)
    raise CommitConflictError(f"{target.name}: other writers committed first {_TRIES} times; run again")


def _is_another(target: Target) -> bool:
    """Return whether the table was created again, which went with the statistics file. A server that commits
    knows the table by its id.
    """
    return target.stores.versions is None and not target.schemas.is_same(target.schema)


def _draft(target: Target, latest: Snapshot, lists: list[str]) -> Snapshot:
    """Return a snapshot like `latest`, with the same files and an empty change. `lists` are the paths of the
    manifest lists that were written.
    """
    base = target.manifests.write_list(target.manifests.data_manifests(latest))
    lists.append(target.paths.manifest(base[0]))
    change = target.manifests.write_list(())
    lists.append(target.paths.manifest(change[0]))
    return next_metadata_only(
        latest, base, change, CommitKind.ANALYZE, target.clock.now_ms(), properties=None
    )
