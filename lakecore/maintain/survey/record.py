"""This module has the values of a survey and their JSON. No IO, no clock.

All times are in milliseconds since the epoch, all sizes in bytes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields, replace
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import printable, reason
from lakecore.maintain.survey.activity import LastAttempt, Lateness, rhythm_from_json
from lakecore.maintain.survey.days import DayPoint, DayPoints

__all__ = ["DAYS", "DayPoint", "Deduction", "Figures", "State", "TableRecord"]

DAYS = 14
"""This is the number of days of which a record has a point."""
_LONGEST_TEXT = 500


class State(Enum):
    """The owner of a table should know this first."""

    OK = "ok"
    DUE = "due"
    """Maintenance would improve the table."""
    SICK = "sick"
    """The table is far from healthy."""
    HELD = "held"
    """Nothing may be removed from the table; the holds say why."""
    BROKEN = "broken"
    """The table cannot be read; `error` says why."""
    UNSUPPORTED = "unsupported"
    """This release cannot look at the table; `error` says why."""
    UNREACHABLE = "unreachable"
    """Storage did not answer; the figures are those of the last survey that could read the table."""
    VANISHED = "vanished"
    """The last survey saw the table, and no list has it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """These are the figures of a table, at its latest snapshot. A table without a snapshot has zeros."""

    snapshot: int | None = None
    """This is the latest snapshot."""
    snapshot_ms: int | None = None
    """It says when it was committed."""
    snapshot_key: str = ""
    """This distinguishes the latest snapshot from another with the same id: it is its manifest list."""
    schema: int = 0
    """This is the latest schema."""
    has_key: bool = False
    """It tells whether the table has a primary key."""
    files: int = 0
    """It counts live data files."""
    bytes: int = 0
    """This is the size of the live data files."""
    rows: int = 0
    """It counts the rows of the live data files, before merging."""
    deleted_rows: int = 0
    """It counts rows of these that are deletions, or that deletion vectors mark."""
    buckets: int = 0
    """It counts buckets of all partitions that have live files."""
    partitions: int = 0
    level0_files: int = 0
    """It counts files of level 0; it is 0 for an append table."""
    sorted_runs: int = 0
    """The most sorted runs that one bucket has; 0 for an append table."""
    due_buckets: int = 0
    """It counts buckets with as many sorted runs, or as many small files, as start a compaction."""
    small_files: int = 0
    """It counts small files of an append table that a compaction can join with others of their bucket; it
    is 0 for a table with a primary key.
    """
    postponed_files: int = 0
    """Files of postponed buckets, which no batch read shows until a compaction."""
    manifests: int = 0
    """It counts manifests of the latest snapshot."""
    manifest_bytes: int = 0
    """This is the size of these manifests."""
    snapshots: int = 0
    oldest_ms: int | None = None
    """It says when the oldest snapshot was committed."""
    history_bytes: int | None = None
    """It counts bytes of data files that only older snapshots of the branch need; it is None when there
    were too many snapshots to look at.
    """
    tags: int = 0
    branches: int = 0
    consumers: int = 0
    consumer_lag: int = 0
    """It counts the snapshots that the slowest consumer has still to read."""

    @property
    def due_share(self) -> float:
        """Return the share of the files, bytes and rows that the next compaction reads, by its buckets."""
        if not (self.due_buckets or self.postponed_files):
            return 0.0
        return self.due_buckets / self.buckets if self.due_buckets and self.buckets else 1.0


@dataclass(frozen=True, slots=True)
class Deduction:
    """These are points that a table lost, the rule that took them, and a sentence with the figures."""

    rule: str
    points: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """This is one line of a survey."""

    table: str
    state: State
    surveyed_ms: int
    """It says when the table was looked at."""
    score: int = 0
    """From 0 to 100; 100 is a table that needs no maintenance."""
    figures: Figures = field(default_factory=Figures)
    figures_ms: int = 0
    """It says when the figures of the files were read; that is earlier than `surveyed_ms` for a table that
    did not change.
    """
    deductions: tuple[Deduction, ...] = ()
    due_in_days: float | None = None
    """In how many days the score will be that of a table that is due, if it goes on as in the last days; 0
    when it is due, None when it does not get worse or the record is too short.
    """
    error: str = ""
    error_class: str = ""
    holds: tuple[str, ...] = ()
    """It says why nothing may be removed, with a sentence for each hold."""
    days: Sequence[DayPoint] = ()
    """This is a point for each of the last days, the oldest first."""
    attempts: tuple[LastAttempt, ...] = ()
    """This is the newest attempt of each job on the table, the newest first."""
    late: Lateness = field(default_factory=Lateness)
    rhythm: tuple[float, ...] = ()
    """It has the usual number of commits in each hour of the day (UTC); it is empty before it is known."""
    expected_seconds: float | None = None
    """This is what the next compaction will take, for a table that is due; None for another one."""

    @property
    def reasons(self) -> str:
        """Return why the table is not healthy, the error and the holds first; empty for a healthy one."""
        texts = (self.error, *self.holds, *(one.text for one in self.deductions))
        return "; ".join(text for text in texts if text)

    def to_json(self) -> dict[str, Any]:
        """Convert the record to plain values."""
        raw = asdict(replace(self, days=()))
        raw["state"] = self.state.value
        raw["days"] = [list(asdict(day).values()) for day in self.days]
        raw["holds"] = list(self.holds)
        raw["deductions"] = [asdict(one) for one in self.deductions]
        return raw

    @classmethod
    def from_json(cls, raw: Any) -> TableRecord:
        """Build a record from its JSON. Keys that this release does not know are ignored.

        Raises ValueError for anything that is not a record; every text comes back printable and bounded.
        """
        try:
            values = _known_fields(cls, raw)
            values["state"] = State(values["state"])
            values["figures"] = Figures(**_numbers(_known_fields(Figures, values.get("figures", {}))))
            deductions = (_known_fields(Deduction, one) for one in values.get("deductions", ()))
            values["deductions"] = tuple(
                Deduction(sys.intern(_text(one["rule"])), _whole(one["points"]), _text(one["text"]))
                for one in deductions
            )
            values["days"] = DayPoints(DayPoint(*map(_whole, day)) for day in values.get("days", ()))
            values["holds"] = tuple(map(_text, values.get("holds", ())))
            for name in ("table", "error", "error_class"):
                values[name] = _text(values.get(name, ""))
            for name in ("surveyed_ms", "score", "figures_ms"):
                values[name] = _whole(values.get(name, 0))
            for name in ("due_in_days", "expected_seconds"):
                values[name] = _days(values.get(name))
            values["attempts"] = tuple(map(LastAttempt.from_json, values.get("attempts", ())))
            values["late"] = Lateness.from_json(values["late"]) if "late" in values else Lateness()
            values["rhythm"] = rhythm_from_json(values.get("rhythm", ()))
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise ValueError(f"not a record of a survey: {reason(err)}") from err


def _known_fields(kind: type[Any], raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise TypeError(f"{kind.__name__} is not an object")
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in raw.items() if name in names}


def _numbers(raw: Mapping[str, Any]) -> dict[str, Any]:
    optional = ("snapshot", "snapshot_ms", "oldest_ms", "history_bytes")
    return {
        name: _text(value)
        if name == "snapshot_key"
        else _flag(value)
        if name == "has_key"
        else None
        if value is None and name in optional
        else _whole(value)
        for name, value in raw.items()
    }


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError("not a whole number of 0 or more")
    return value


def _days(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise TypeError("not a number of 0 or more")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return printable(value, _LONGEST_TEXT)
