"""This module defines the options of the pickers as typed policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum, parse_size

__all__ = ["AppendPolicy", "EarlyFullPolicy", "LookupCompact", "OffPeak", "TreePolicy", "UniversalPolicy"]


class LookupCompact(Enum):
    """It says how eagerly level 0 is compacted. RADICAL merges always completely. GENTLE does so only
    when there are many files.
    """

    RADICAL = "radical"
    GENTLE = "gentle"


RUN_TRIGGER = Option("num-sorted-run.compaction-trigger", int, 5, "Sorted runs that start a compaction.")
NUM_LEVELS: Option[int | None] = Option("num-levels", int, None, "Levels of the tree; default trigger + 1.")
SIZE_AMP = Option(
    "compaction.max-size-amplification-percent", int, 200, "Size of newer runs that forces a full compaction."
)
SIZE_RATIO = Option("compaction.size-ratio", int, 1, "Slack in percent when runs count as equally large.")
OFF_PEAK_START = Option("compaction.offpeak.start.hour", int, -1, "First hour of the quiet time.")
OFF_PEAK_END = Option("compaction.offpeak.end.hour", int, -1, "Hour at which the quiet time ends.")
OFF_PEAK_RATIO = Option("compaction.offpeak-ratio", int, 0, "Slack added to the size ratio in quiet time.")
FULL_INTERVAL: Option[int | None] = Option(
    "compaction.optimization-interval", parse_duration_ms, None, "Time between full compactions (ms)."
)
TOTAL_SIZE: Option[int | None] = Option(
    "compaction.total-size-threshold", parse_size, None, "Smaller buckets are always compacted fully."
)
INCREMENTAL_SIZE: Option[int | None] = Option(
    "compaction.incremental-size-threshold",
    parse_size,
    None,
    "Bytes above the last level that force a full one.",
)
FORCE_LEVEL_0 = Option("compaction.force-up-level-0", parse_bool, False, "Never leave level 0 files behind.")
LOOKUP_COMPACT = Option(
    "lookup-compact", parse_enum(LookupCompact), LookupCompact.RADICAL, "When level 0 is taken up by lookup."
)
LOOKUP_INTERVAL: Option[int | None] = Option(
    "lookup-compact.max-interval", int, None, "Level-0 files that a gentle lookup compaction waits for."
)
FORCE_REWRITE = Option(
    "compaction.force-rewrite-all-files", parse_bool, False, "Full compaction rewrites what it could move."
)
MIN_FILES = Option("compaction.min.file-num", int, 5, "Small append files worth a compaction.")
SMALL_RATIO: Option[float | None] = Option(
    "compaction.small-file-ratio", float, None, "Files below this share of the target size are small (0.7)."
)
DELETE_RATIO = Option(
    "compaction.delete-ratio-threshold", float, 0.2, "Share of deleted rows that is worth a compaction."
)
OPEN_FILE_COST = Option(
    "source.split.open-file-cost", parse_size, 4 << 20, "Bytes that a file weighs at least."
)

_HOURS = 24
_FEWEST_LEVELS = 2
_SMALL_TENTHS = 7
_GENTLE_TRIGGERS = 2


@dataclass(frozen=True, slots=True)
class OffPeak:
    """These are the off-peak hours [start, end) of the day, possibly over midnight, and the size ratio
    that they add (percent).
    """

    start: int = -1
    end: int = -1
    ratio: int = 0

    def ratio_at(self, hour: int) -> int:
        """Return the added ratio at an hour of the local day; 0 outside of the off-peak hours or when none
        are set.
        """
        if self.start < 0 or self.end < 0 or self.start == self.end:
            return 0
        inside = (hour - self.start) % _HOURS < (self.end - self.start) % _HOURS
        return self.ratio if inside else 0


@dataclass(frozen=True, slots=True)
class UniversalPolicy:
    """This is the policy of universal compaction. `size_amp` and `size_ratio` are in percent."""

    run_trigger: int = 5
    size_amp: int = 200
    size_ratio: int = 1
    off_peak: OffPeak = OffPeak()

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> UniversalPolicy:
        """Read the policy. Raises InvalidOptionError naming the option and its value."""
        off_peak = OffPeak(OFF_PEAK_START.read(raw), OFF_PEAK_END.read(raw), OFF_PEAK_RATIO.read(raw))
        trigger = RUN_TRIGGER.read(raw)
        if trigger < 1:
            raise InvalidOptionError(f"option {RUN_TRIGGER.key}={trigger}: must be at least 1")
        return cls(trigger, SIZE_AMP.read(raw), SIZE_RATIO.read(raw), off_peak)

    def at_hour(self, hour: int) -> UniversalPolicy:
        """Return the policy that holds at an hour of the local day."""
        return replace(self, size_ratio=self.size_ratio + self.off_peak.ratio_at(hour), off_peak=OffPeak())


@dataclass(frozen=True, slots=True)
class EarlyFullPolicy:
    """The rules for a full compaction before the usual rules apply; None means that a rule is not set.
    Values are milliseconds and bytes.
    """

    interval_ms: int | None = None
    total_size: int | None = None
    incremental_size: int | None = None

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> EarlyFullPolicy:
        """Read the policy. Raises InvalidOptionError naming the option and its value."""
        return cls(FULL_INTERVAL.read(raw), TOTAL_SIZE.read(raw), INCREMENTAL_SIZE.read(raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePolicy:
    """These are the policies of a bucket's tree. Sizes are in bytes."""

    universal: UniversalPolicy
    early_full: EarlyFullPolicy
    num_levels: int
    force_level_0: bool
    force_rewrite: bool
    small_file_size: int
    level_0_files: int = 1
    """This is the number of level-0 files from which level 0 must be compacted, if it must be."""

    @classmethod
    def from_options(
        cls, raw: Mapping[str, str], target_file_size: int, *, lookup: bool = False
    ) -> TreePolicy:
        """Read the policies. `lookup`: the table's compactions look old rows up, so that level 0 must
        always be compacted.

        Raises InvalidOptionError naming the option and its value.
        """
        universal = UniversalPolicy.from_options(raw)
        levels = NUM_LEVELS.read(raw)
        if levels is not None and levels < _FEWEST_LEVELS:
            raise InvalidOptionError(f"option {NUM_LEVELS.key}={levels}: must be at least {_FEWEST_LEVELS}")
        return cls(
            universal=universal,
            early_full=EarlyFullPolicy.from_options(raw),
            num_levels=levels or universal.run_trigger + 1,
            force_level_0=lookup or FORCE_LEVEL_0.read(raw),
            force_rewrite=FORCE_REWRITE.read(raw),
            small_file_size=small_file_size(target_file_size, SMALL_RATIO.read(raw)),
            level_0_files=_level_0_files(raw, universal.run_trigger) if lookup else 1,
        )


def _level_0_files(raw: Mapping[str, str], run_trigger: int) -> int:
    """Return the number of level-0 files from which a lookup compaction must merge level 0.

    Rule of the format: a gentle compaction waits for so many triggers; each brings a level-0 file.
    """
    if LOOKUP_COMPACT.read(raw) is LookupCompact.RADICAL:
        return 1
    interval = LOOKUP_INTERVAL.read(raw)
    return max(_GENTLE_TRIGGERS * run_trigger if interval is None else interval, run_trigger)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPolicy:
    """This is the policy of append compaction. Sizes are in bytes."""

    target_file_size: int
    small_file_size: int
    min_files: int
    open_file_cost: int
    delete_ratio: float = DELETE_RATIO.default
    """A file with a higher share of deleted rows than this is rewritten whatever its size."""

    @classmethod
    def from_options(cls, raw: Mapping[str, str], target_file_size: int) -> AppendPolicy:
        """Read the policy. Raises InvalidOptionError naming the option and its value."""
        return cls(
            target_file_size=target_file_size,
            small_file_size=small_file_size(target_file_size, SMALL_RATIO.read(raw)),
            min_files=MIN_FILES.read(raw),
            open_file_cost=OPEN_FILE_COST.read(raw),
            delete_ratio=DELETE_RATIO.read(raw),
        )


def small_file_size(target_file_size: int, ratio: float | None = None) -> int:
    """Return the size below which files are worth joining. Rule of the format: target / 10 * 7 in integers;
    since Paimon 2.0 the ratio that the table has.
    """
    if ratio is not None:
        return int(target_file_size * ratio)
    return target_file_size // 10 * _SMALL_TENTHS
