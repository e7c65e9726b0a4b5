"""This module has a hold on a table as a value, and its JSON. It does no IO and knows no clock.

A record that cannot be read counts as a hold that only a person releases: damage must not set a table free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import printable
from lakecore.types.text import timestamp_text

__all__ = ["MAX_RECORD_BYTES", "EndsWith", "Hold"]

MAX_RECORD_BYTES = 64 << 10
"""A longer file is no record of a hold; it is not read."""
_LONGEST_TEXT = 1_000
_TEXTS = ("table", "reason", "error_class", "path", "job", "by")


class EndsWith(Enum):
    """It says what ends a hold, besides a person, who can end any."""

    FSCK = "fsck"
    """A check of the whole table that finds no damage ends it."""
    DEEP_FSCK = "fsck --deep"
    """A check that also decodes every column: the cause cannot be seen without."""
    PERSON = "release"
    """The hold ends only when a person releases it: a person asked for it, or its record cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason for which nothing may be removed from `table` (without a branch: branches share their
    files).

    `id` is the name of its file, and `since_ms` counts since the epoch. `error_class` and `path` are those of
    the error that caused it, or empty. `job` is the chore that failed; `by` is the run or the person.
    `readable` is False for a damaged record.
    """

    id: str
    table: str
    ends_with: EndsWith
    reason: str
    since_ms: int
    error_class: str = ""
    path: str = ""
    job: str = ""
    by: str = ""
    readable: bool = True

    @property
    def automatic(self) -> bool:
        """Return whether lakecore placed it because of damage. It is not known of a damaged record, and then
        False.
        """
        return self.ends_with is not EndsWith.PERSON

    @property
    def cause(self) -> tuple[str, str, str]:
        """Return the cause: two automatic holds of one cause have the same."""
        return self.ends_with.value, self.error_class, self.path

    def __str__(self) -> str:
        since = f"since {timestamp_text(self.since_ms * 1_000_000, 0)}Z, " if self.since_ms > 0 else ""
        who = f"{self.job} by {self.by}" if self.job and self.by else self.job or self.by or "unknown"
        return printable(f"{since}{who}: {self.reason}")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        return texts | {
            "id": self.id,
            "ends_with": self.ends_with.value,
            "since_ms": self.since_ms,
            "automatic": self.automatic,
            "readable": self.readable,
        }

    def encoded(self) -> bytes:
        """Return the content of its file. Every text is printable and bounded."""
        raw = self.to_json() | {name: printable(getattr(self, name), _LONGEST_TEXT) for name in _TEXTS}
        stored = {key: value for key, value in raw.items() if key not in ("id", "automatic", "readable")}
        return json.dumps({"version": 1, **stored}, indent=2, ensure_ascii=False).encode()

    @classmethod
    def decoded(cls, data: bytes, name: str, table: str) -> Hold:
        """Return the record in file `name` of the folder of `table`. A damaged file is a hold, too."""
        try:
            raw = json.loads(data)
            if not isinstance(raw, Mapping) or raw["version"] != 1 or raw["table"] != table:
                return cls.unreadable(name, table, "it is not a record of version 1 for this table")
            texts = {key: raw[key] for key in _TEXTS}
            since, ends_with = raw["since_ms"], EndsWith(raw["ends_with"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls.unreadable(name, table, "it is not a record of a hold")
        right = all(isinstance(text, str) for text in texts.values())
        if not right or isinstance(since, bool) or not isinstance(since, int) or abs(since) > 1 << 53:
            return cls.unreadable(name, table, "one of its values has a wrong type")
        plain: dict[str, Any] = {key: printable(text) for key, text in texts.items()}
        return cls(id=name, ends_with=ends_with, since_ms=since, **plain)

    @classmethod
    def unreadable(cls, name: str, table: str, problem: str) -> Hold:
        """Return the hold that a damaged record stands for."""
        reason = f"the record {printable(name)} of a hold cannot be read ({problem}), so it counts as a hold"
        return cls(id=name, table=table, ends_with=EndsWith.PERSON, reason=reason, since_ms=0, readable=False)
