"""This module has jobs that remove what is too old or needed by nobody: snapshots, changelogs, orphan
files; and the job that empties a table with its history.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import CommittingJob, TableJob

__all__ = [
    "OLDER_THAN",
    "ExpireChangelogs",
    "ExpireSnapshots",
    "OlderThan",
    "PurgeFiles",
    "RemoveOrphanFiles",
]

OLDER_THAN = (
    "Select only what is older: date and time (UTC unless it has an offset), or milliseconds since 1970."
)
OlderThan = Annotated[int | None, Parameter(OLDER_THAN, Kind.MOMENT)]


@dataclass(frozen=True, kw_only=True)
class _ExpiryJob(TableJob):
    """The limits of an expiry; one that is None takes the table's option."""

    removes: ClassVar[bool] = True

    retain_max: Annotated[
        int | None, Parameter("Keep at most so many; by default the value of the table's option.")
    ] = None
    retain_min: Annotated[
        int | None, Parameter("Keep at least so many; by default the value of the table's option.")
    ] = None
    older_than_ms: OlderThan = None
    """The time before which they expire; younger ones expire only because of `retain_max`."""
    max_deletes: Annotated[
        int | None, Parameter("Expire at most so many; by default the value of the table's option.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpireSnapshots(_ExpiryJob):
    """This is a request to expire snapshots. A limit that is None takes the table's option
    (`snapshot.num-retained.max`, …).
    """

    command: ClassVar[str] = "expire-snapshots"
    module: ClassVar[str] = "expire_snapshots"

    by_successor: Annotated[bool, Parameter("Count a snapshot's age from when the next replaced it.")] = False
    """See `Retention.by_successor`."""


@dataclass(frozen=True, kw_only=True)
class ExpireChangelogs(_ExpiryJob):
    """This is a request to expire changelogs. A limit that is None takes the table's option
    (`changelog.num-retained.max`, …).
    """

    command: ClassVar[str] = "expire-changelogs"
    module: ClassVar[str] = "expire_changelogs"

    delete_all: Annotated[bool, Parameter("Expire all of them, regardless of the limits.")] = False


@dataclass(frozen=True, kw_only=True)
class RemoveOrphanFiles(TableJob):
    """This is a request to remove the orphans of one table. For the limits see `OrphanLimits`."""

    command: ClassVar[str] = "remove-orphan-files"
    module: ClassVar[str] = "remove_orphan_files"
    removes: ClassVar[bool] = True

    older_than_ms: OlderThan = None
    """The time before which files may be removed; younger files stay. None means a day ago."""
    max_share: Annotated[
        float, Parameter("Stop when more than this part of the files or bytes would go.")
    ] = 0.5
    few: Annotated[int, Parameter("Allow the removal of so many files, regardless of their share.")] = 1000
    allow_empty: Annotated[bool, Parameter("Run also on tables without snapshot, tag or changelog.")] = False
    external: Annotated[
        bool, Parameter("Look also below data-file.external-paths, which no table elsewhere may use.")
    ] = False
    """If it is True, files below `data-file.external-paths` are cleaned, too, where no other table of the
    warehouse has files; the caller guarantees that no table of another warehouse has files there.
    """


@dataclass(frozen=True, kw_only=True)
class PurgeFiles(CommittingJob):
    """This is a request to empty a table and to remove its history: branches, tags, consumers, changelogs and
    all snapshots but an empty one.

    If (`commit_user`, `commit_identifier`) names the run, rows that were written after its first attempt
    stay.
    """

    command: ClassVar[str] = "purge-files"
    module: ClassVar[str] = "purge_files"
    removes: ClassVar[bool] = True

    older_than_ms: OlderThan = None
    """The time before which files may be removed that no snapshot, tag or changelog refers to: a writer may
    be about to commit younger ones. None means a day ago.
    """
