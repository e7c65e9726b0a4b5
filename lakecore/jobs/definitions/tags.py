"""This module has jobs on tags: create, replace, rename, delete, expire; automatic tags and tags of days
and hours.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.expiry import OlderThan
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import TableJob

__all__ = [
    "CreateBatchTags",
    "CreateTag",
    "DeleteTag",
    "ExpireTags",
    "PeriodClock",
    "RenameTag",
    "ReplaceTag",
    "TriggerTagAutomaticCreation",
]

TagName = Annotated[str, Parameter("Use this name for the tag.")]
SnapshotId = Annotated[int | None, Parameter("Tag the snapshot with this id; by default the latest.")]
TimeRetained = Annotated[
    int | None,
    Parameter("Keep it for so long: '7 d'; by default the value of the table's option.", Kind.DURATION),
]
Zone = Annotated[str, Parameter("Tags are written by the clock of this time zone.", flags=("--time-zone",))]


@dataclass(frozen=True, kw_only=True)
class _TagJob(TableJob):
    """A request about tags of one table."""

    module: ClassVar[str] = "versions.tags"

    zone: str = "UTC"
    """This is the time zone of the wall clock that tags are written by (Java: that of its machine). It is a
    parameter of the jobs that read or write times.
    """


@dataclass(frozen=True, kw_only=True)
class CreateTag(_TagJob):
    """Tag a snapshot: the one with that id, the first at or after a time, the first with that watermark, or
    the latest.

    A tag that already exists for the same snapshot is no error.
    """

    command: ClassVar[str] = "create-tag"

    tag: TagName
    zone: Zone = "UTC"
    snapshot: SnapshotId = None
    timestamp_ms: Annotated[
        int | None, Parameter("Tag the first snapshot committed at or after this time.", Kind.MOMENT)
    ] = None
    watermark: Annotated[
        int | None, Parameter("Tag the first snapshot with at least this watermark (milliseconds).")
    ] = None
    time_retained_ms: TimeRetained = None
    ignore_if_exists: Annotated[bool, Parameter("Leave a tag of that name as it is.")] = False


@dataclass(frozen=True, kw_only=True)
class ReplaceTag(_TagJob):
    """Move an existing tag to another snapshot, and delete what only the old one needed."""

    command: ClassVar[str] = "replace-tag"
    removes: ClassVar[bool] = True

    tag: TagName
    zone: Zone = "UTC"
    snapshot: SnapshotId = None
    time_retained_ms: TimeRetained = None


@dataclass(frozen=True, kw_only=True)
class RenameTag(_TagJob):
    """Rename a tag."""

    command: ClassVar[str] = "rename-tag"

    tag: TagName
    target_tag: Annotated[str, Parameter("Use this name.")]


@dataclass(frozen=True, kw_only=True)
class DeleteTag(_TagJob):
    """Delete tags and the files that only they need."""

    command: ClassVar[str] = "delete-tag"
    removes: ClassVar[bool] = True

    tags: Annotated[tuple[str, ...], Parameter("Name the tags, split by commas.", flags=("--tag",))]


@dataclass(frozen=True, kw_only=True)
class ExpireTags(_TagJob):
    """Delete tags whose retention time has passed, and those created before `older_than_ms`."""

    command: ClassVar[str] = "expire-tags"
    removes: ClassVar[bool] = True

    older_than_ms: OlderThan = None
    zone: Zone = "UTC"
    keep_newest: Annotated[int, Parameter("Keep so many of the newest tags in any case.")] = 0
    """This many of the tags that were created last are always kept: a table whose writer has stopped would
    lose them all.
    """


@dataclass(frozen=True, kw_only=True)
class TriggerTagAutomaticCreation(TableJob):
    """Create the automatic tags that are due, delete those that are too many and tags whose retention time
    has passed.
    """

    command: ClassVar[str] = "trigger-tag-automatic-creation"
    module: ClassVar[str] = "versions.auto_tags"
    removes: ClassVar[bool] = True

    zone: Annotated[
        str,
        Parameter(
            "Use this time zone for commits, unless sink.process-time-zone gives it, and for tags.",
            flags=("--time-zone",),
        ),
    ] = "UTC"
    """This is the time zone of the wall clock that tags are written by, and of the days and hours of
    commits where option sink.process-time-zone names none.
    """


class PeriodClock(Enum):
    """This is the clock that a period's end is compared with."""

    COMMIT_TIME = "commit-time"
    WATERMARK = "watermark"


@dataclass(frozen=True, kw_only=True)
class CreateBatchTags(TableJob):
    """Tag the last snapshot before the end of a period."""

    command: ClassVar[str] = "create-batch-tags"
    module: ClassVar[str] = "versions.batch_tags"
    removes: ClassVar[bool] = True

    date: Annotated[
        str, Parameter("Tag the period of this time: 2026-11-20; by default the last that is over.")
    ] = ""
    """Empty means the last period that was complete at `as_of`."""
    as_of: Annotated[str, Parameter("Tag, without --date, the last period that was over then.")] = ""
    """A time; the default is now."""
    start: Annotated[
        str,
        Parameter("Begin with this period; by default with that of the oldest tag.", flags=("--from",)),
    ] = ""
    """By default it is the period of the oldest tag of these names."""
    end: Annotated[
        str, Parameter("End with this period; by default with that of --date.", flags=("--to",))
    ] = ""
    """Missing tags are reported, and created with `backfill`."""
    period: Annotated[
        str,
        Parameter(
            "Create a tag for each of these periods: daily, hourly, two-hours, '15 min'; by default the "
            "value of the option."
        ),
    ] = ""
    formatter: Annotated[
        str,
        Parameter(
            "Write names with_dashes, without_dashes or without_dashes_and_spaces; by default as its option."
        ),
    ] = ""
    """This is the formatter of tag names; by default it is the table's option."""
    name: Annotated[str, Parameter("Name the tags so, with {period} once.")] = "{period}"
    delay_ms: Annotated[
        int,
        Parameter(
            "Let a period take snapshots for so long after its end.", Kind.DURATION, default_text="0 s"
        ),
    ] = 0
    by: Annotated[str, Parameter("Choose which time counts.", choices=PeriodClock)] = (
        PeriodClock.COMMIT_TIME.value
    )
    """It says whether periods end by the time of commits or by their watermarks."""
    replace: Annotated[
        bool,
        Parameter("Let tags of another snapshot stand for the right one; they are never missing."),
    ] = False
    """Move tags that refer to another snapshot than the rule says."""
    backfill: Annotated[bool, Parameter("Create the missing tags of the whole range.")] = False
    num_retained_max: Annotated[
        int | None, Parameter("Keep so many tags of these names; by default the value of the table's option.")
    ] = None
    time_retained_ms: Annotated[
        int | None,
        Parameter("Keep each for so long: '7 d'; by default the value of the table's option.", Kind.DURATION),
    ] = None
    zone: Annotated[
        str,
        Parameter(
            "Days and hours are those of this time zone; by default of the table's option, else UTC.",
            flags=("--time-zone",),
        ),
    ] = ""
    """Empty takes the time zone of the table's options, else UTC."""
