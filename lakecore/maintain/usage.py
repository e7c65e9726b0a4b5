"""This module keeps what the attempts of a run used, in `<warehouse>/.lakecore/usage`, as a running sum.

`YYYY-MM-DD/<run>/<attempt>.<bytes>.<core milliseconds>` is an empty file, which an attempt writes when it
ends. Its name is the record: one listing gives the sum, and attempts that end at once on several workers do
not disturb each other. A retry is another attempt. The day (UTC) is that on which the run started.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.maintain.service_store import ServiceStore

__all__ = ["Usage", "UsageStore", "usage_key"]

_KEPT_DAYS = 30
_DAY_MS = 86_400_000
_MARK = re.compile(r"[0-9A-Za-z-]{1,80}\.(\d{1,18})\.(\d{1,18})")
_KEY = re.compile(r"\d{4}-\d{2}-\d{2}/[0-9a-f]{32}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Usage:
    """This is what attempts used."""

    bytes: int = 0
    """They read these bytes to rewrite or remove them."""
    core_seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.bytes + other.bytes, self.core_seconds + other.core_seconds)


def usage_key(run: Mapping[str, Any], started_ms: int) -> str:
    """Return the name of a run's directory: its day, and a hash of what names it."""
    text = "\0".join(f"{name}={run[name]}" for name in sorted(run))
    return f"{_day(started_ms)}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class UsageStore(ServiceStore):
    """It stores what the attempts of runs used."""

    directory: ClassVar[str] = "usage"

    def add(self, key: str, attempt: str, usage: Usage) -> None:
        """Add what an attempt used. It is one write; a repeated one changes nothing. Raises UnavailableError,
        ValueError for what is no key of a run.
        """
        mark = f"{attempt}.{max(0, usage.bytes)}.{max(0, round(usage.core_seconds * 1000))}"
        if not _KEY.fullmatch(key) or not _MARK.fullmatch(mark):
            raise ValueError(f"{key}/{mark} is no usage of a run")
        self.file_io.overwrite(f"{self.root}/{key}/{mark}", b"")

    def sum(self, key: str) -> Usage:
        """Return what all attempts of a run used. It is one listing. Raises UnavailableError."""
        marks = [
            match for one in self.file_io.list(f"{self.root}/{key}") if (match := _MARK.fullmatch(one.name))
        ]
        core_ms = sum(int(mark[2]) for mark in marks)
        return Usage(sum(int(mark[1]) for mark in marks), core_ms / 1000)

    def tidy(self, now_ms: int) -> None:
        """Remove the sums of runs that started more than 30 days ago. It costs a listing, and for each old
        day one for each run. Raises UnavailableError.
        """
        oldest = _day(now_ms - _KEPT_DAYS * _DAY_MS)
        for day in self.file_io.list(self.root):
            if not _DAY.fullmatch(day.name) or day.name >= oldest:
                continue
            for run in self.file_io.list(day.path):
                for mark in self.file_io.list(run.path):
                    self.file_io.delete(mark.path)
                self.file_io.delete(run.path)
            self.file_io.delete(day.path)


def _day(moment_ms: int) -> str:
    return f"{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y-%m-%d}"
