"""The stream policy decides what a stream reads of each snapshot that follows its start. Pure.

Rules of the format: without a changelog producer a stream gets the rows that APPEND snapshots added, as
they were written; with one, it gets the changelog files of every snapshot that has them. OVERWRITE
snapshots are skipped unless the table asks for them; all other kinds are skipped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.options import Option, parse_bool, parse_duration_ms
from lakecore.scan.filters import EVERYTHING, ScanFilter

__all__ = ["ChangeKind", "ChangelogMode", "StreamPolicy"]

_TOP = (1 << 31) - 1

BOUNDED_WATERMARK: Option[int | None] = Option(
    "scan.bounded.watermark", int, None, "The stream ends at the first snapshot with a later watermark (ms)."
)
SNAPSHOT_DELAY: Option[int | None] = Option(
    "streaming.read.snapshot.delay", parse_duration_ms, None, "Snapshots younger than this wait (ms)."
)
STREAM_INTERVAL = Option(
    "continuous.discovery-interval", parse_duration_ms, 10_000, "Time between two looks for snapshots (ms)."
)
READ_OVERWRITE = Option("streaming-read-overwrite", parse_bool, False, "Read what overwrites change.")
READ_APPEND_OVERWRITE = Option(
    "streaming-read-append-overwrite", parse_bool, False, "Read what overwrites add to append tables."
)


class ChangeKind(Enum):
    """It says which changes of a snapshot are read."""

    NOTHING = "nothing"
    ADDED = "rows of the files it added"
    CHANGELOG = "rows of its changelog"
    REPLACED = "rows of the files it removed, as deletes, then of those it added"


class ChangelogMode(Enum):
    """It says which kinds of rows a stream can have, as Paimon tells its readers beforehand.

    Rule of the format: a table without a primary key, and one with merge engine first-row, has inserts only;
    a changelog producer makes all kinds; without one a row replaces the row of its key. Rows are then as
    they were written, so that a key of a first-row table may be inserted twice, and `-U` comes only where
    somebody wrote it.
    """

    INSERT_ONLY = "insert-only"
    """All rows are inserts."""
    UPSERT = "upsert"
    """Rows of kind `+I` and `+U` replace the row of their key, `-D` removes it; `-U` says nothing new."""
    ALL = "all"
    """An update has both rows, `-U` and `+U`."""

    @classmethod
    def of_table(cls, schema: TableSchema, options: TableOptions) -> ChangelogMode:
        """Return the mode of a table. With `streaming-read-overwrite` replaced rows are deletes, too."""
        if not schema.primary_keys:
            return cls.INSERT_ONLY
        if options.merge_engine is MergeEngine.FIRST_ROW:
            return cls.UPSERT if READ_OVERWRITE.read(schema.options) else cls.INSERT_ONLY
        return cls.UPSERT if options.changelog_producer is ChangelogProducer.NONE else cls.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPolicy:
    """A stream obeys these options of a table."""

    keyed: bool
    """It tells whether the table has a primary key."""
    producer: ChangelogProducer
    reads_overwrites: bool
    """It tells whether the changes of OVERWRITE snapshots are read."""
    bounded_watermark: int | None
    """The stream ends past this watermark, in milliseconds; None if it never ends."""
    delay_ms: int | None
    """This is the age in milliseconds at which a snapshot may be read; None if there is no delay."""
    full_levels: tuple[int, int] | None
    """The lowest and highest level that the initial full read covers; None for all levels."""

    @classmethod
    def from_schema(cls, schema: TableSchema, options: TableOptions) -> StreamPolicy:
        """Build the policy. Raises InvalidOptionError for options that cannot be combined."""
        raw, keyed = schema.options, bool(schema.primary_keys)
        producer = options.changelog_producer if keyed else ChangelogProducer.NONE
        reads_overwrites = READ_OVERWRITE.read(raw)
        if reads_overwrites and not keyed:
            raise InvalidOptionError(
                f"option {READ_OVERWRITE.key}=true: the table has no primary key; "
                f"use {READ_APPEND_OVERWRITE.key}"
            )
        if reads_overwrites and producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION):
            raise InvalidOptionError(
                f"option {READ_OVERWRITE.key}=true: changelog-producer={producer.value} already "
                "gives these changes; unset one of them"
            )
        return cls(
            keyed=keyed,
            producer=producer,
            reads_overwrites=reads_overwrites if keyed else READ_APPEND_OVERWRITE.read(raw),
            bounded_watermark=BOUNDED_WATERMARK.read(raw),
            delay_ms=SNAPSHOT_DELAY.read(raw),
            full_levels=_full_levels(producer, raw, options.target_file_size),
        )

    @property
    def first_filter(self) -> ScanFilter:
        """Return the filter of the initial full read, which leaves out rows that the changelog will still
        emit.
        """
        return EVERYTHING if self.full_levels is None else ScanFilter(levels=self.full_levels)

    @property
    def emits_postponed(self) -> bool:
        """Return whether rows are emitted before they have a bucket. A changelog emits them once they have
        one.
        """
        return self.producer is ChangelogProducer.NONE

    def ends_at(self, snapshot: Snapshot) -> bool:
        """Return whether the stream has reached its bound. A snapshot without a watermark never ends it."""
        bound = self.bounded_watermark
        return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound

    def waits_for(self, snapshot: Snapshot, now_ms: int) -> bool:
        """Return whether the snapshot is too young to be read."""
        return self.delay_ms is not None and snapshot.time_millis > now_ms - self.delay_ms

    def changes_of(self, snapshot: Snapshot) -> ChangeKind:
        """Return what to read of a snapshot that follows."""
        if snapshot.commit_kind is CommitKind.OVERWRITE and self.reads_overwrites:
            return ChangeKind.REPLACED if self.keyed else ChangeKind.ADDED
        if self.producer is not ChangelogProducer.NONE:
            has_one = snapshot.changelog_manifest_list is not None
            return ChangeKind.CHANGELOG if has_one else ChangeKind.NOTHING
        return ChangeKind.ADDED if snapshot.commit_kind is CommitKind.APPEND else ChangeKind.NOTHING


def _full_levels(
    producer: ChangelogProducer, raw: Mapping[str, str], target_file_size: int
) -> tuple[int, int] | None:
    if producer is ChangelogProducer.LOOKUP:
        return (1, _TOP)
    if producer is ChangelogProducer.FULL_COMPACTION:
        top = TreePolicy.from_options(raw, target_file_size).num_levels - 1
        return (top, top)
    return None
