"""This module keeps the attempts of a warehouse in `<warehouse>/.lakecore/ledger`.

`YYYY/MM/DD/<id>.json` (UTC) is one attempt: it is written when the attempt begins, and replaced when it ends.
`YYYY/MM/DD.jsonl.gz` has all attempts of an older day, a line each. It is made once and never replaced; a
single file of the same attempt is newer and counts. Files of single attempts go only when the file of their
day has them.
"""

from __future__ import annotations

import gzip
import io
import logging
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.file_io import FileStatus
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.attempts.record import DAY_MS, Attempt, settled
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.target import in_threads

__all__ = ["AttemptStore", "Attempts"]

logger = logging.getLogger(__name__)

_RETENTION_DAYS = 400
_LONGEST = 64 << 10
"""A record that is longer, in bytes, is damaged or an attack."""
_MOST_BYTES = 1 << 30
_ROLLED = ".jsonl.gz"
_SKEW_MS = 5 * 60_000
"""The clock of storage may be so far behind."""
_ID = re.compile(r"[0-9A-Za-z-]{1,80}")


@dataclass(frozen=True, slots=True)
class Attempts:
    """These are attempts, the oldest first, and the number of records that could not be read."""

    attempts: tuple[Attempt, ...] = ()
    damaged: int = 0


@dataclass(frozen=True)
class AttemptStore(ServiceStore):
    """It stores the attempts of a warehouse."""

    directory: ClassVar[str] = "ledger"

    def save(self, attempt: Attempt) -> None:
        """Store the attempt, in place of an earlier record. It is one write. Raises UnavailableError."""
        data = attempt.encoded()
        if len(data) <= _LONGEST:
            self.file_io.overwrite(f"{self._day(attempt.started_ms)}/{attempt.id}.json", data)

    def read(self, since_ms: int, now_ms: int, until_ms: int | None = None) -> Attempts:
        """Return the attempts that began at `since_ms` or later, and at `until_ms` or earlier if that is
        given. Damaged records are left out and counted.

        It costs two requests a day, and one for each attempt of a day without a file of its own.
        """
        attempts: dict[str, Attempt] = {}
        damaged = 0
        last_ms = 1 << 53 if until_ms is None else until_ms
        read_until_ms = min(now_ms, last_ms + DAY_MS)  # a day later it is known which ones were killed
        for moment in _days(max(since_ms, now_ms - _RETENTION_DAYS * DAY_MS), read_until_ms):
            for one in (*self._records_of_day(self._day(moment)), *self._singles(self._day(moment))):
                if one is None:
                    damaged += 1
                else:
                    attempts[one.id] = one
        ordered = settled(attempts.values(), now_ms)
        return Attempts(tuple(one for one in ordered if since_ms <= one.started_ms <= last_ms), damaged)

    def ended_since(self, since_ms: int, now_ms: int) -> tuple[Attempt, ...]:
        """Return the attempts that ended at `since_ms` or later and before `now_ms`, and began within a day
        before. Single files that storage has not changed since are not read: by its clock, with some
        minutes of tolerance.
        """
        by_id: dict[str, Attempt] = {}
        for moment in _days(max(since_ms, now_ms - _RETENTION_DAYS * DAY_MS) - DAY_MS, now_ms):
            day = self._day(moment)
            for one in (*self._records_of_day(day), *self._singles(day, changed_ms=since_ms - _SKEW_MS)):
                if one is not None:
                    by_id[one.id] = one
        ended = (one for one in by_id.values() if since_ms <= (one.finished_ms or -1) < now_ms)
        return tuple(sorted(ended, key=lambda one: (one.started_ms, one.id)))

    def tidy(self, clock: Clock, days: int = 7) -> None:
        """Put each of the `days` before yesterday into one file, and remove the day that is too old.

        It costs one listing a day, and once a day one read and one deletion for each attempt. Raises
        UnavailableError; what was not done then is done by the next call.
        """
        now_ms = clock.now_ms()
        for number in range(2, 2 + days):
            self._roll_up(self._day(now_ms - number * DAY_MS), clock)
        for number in range(days):
            old = self._day(now_ms - (_RETENTION_DAYS + 1 + number) * DAY_MS)
            for one in self.file_io.list(old):
                self.file_io.delete(one.path)
            if self.file_io.stat(f"{old}{_ROLLED}") is not None:
                self.file_io.delete(f"{old}{_ROLLED}")

    def _roll_up(self, day: str, clock: Clock) -> None:
        """Make the file of a day, then remove the single files whose attempts it has as they are."""
        singles = [one for one in self._singles(day) if one is not None]
        if not singles:
            return
        singles = list(settled(singles, clock.now_ms()))
        data = gzip.compress(b"\n".join(one.encoded() for one in singles), 6, mtime=0)
        publish_resolved(self.file_io, f"{day}{_ROLLED}", data, clock)
        attempts = {one.id: one for one in self._records_of_day(day) if one is not None}
        for one in singles:
            if attempts.get(one.id) == one:
                self.file_io.delete(f"{day}/{one.id}.json")

    def _singles(self, day: str, changed_ms: int = 0) -> Iterator[Attempt | None]:
        """Yield the attempts with a file of their own that storage changed at `changed_ms` or later; None for
        one that cannot be read.
        """
        statuses = [
            status
            for status in self.file_io.list(day)
            if not status.is_dir
            and status.name.endswith(".json")
            and _ID.fullmatch(status.name.removesuffix(".json"))
            and (status.mtime_ms >= changed_ms or not status.mtime_ms)
        ]
        yield from in_threads(self._single, statuses)

    def _single(self, status: FileStatus) -> Attempt | None:
        if status.size > _LONGEST:
            return None
        try:
            one = Attempt.from_json(self.file_io.read(status.path))
        except (ValueError, NotFoundError) as err:
            logger.warning("%s cannot be read: %s", status.path, err)
            return None
        return one if one.id == status.name.removesuffix(".json") else None

    def _records_of_day(self, day: str) -> Iterator[Attempt | None]:
        """Yield the attempts of the file of a day; None for a line that cannot be read."""
        try:
            data = self.file_io.read(f"{day}{_ROLLED}")
        except NotFoundError:
            return
        read = 0
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                while (line := file.readline(_LONGEST + 1)) and read < _MOST_BYTES:
                    read += len(line)
                    yield _parse(line)
        except (OSError, EOFError, zlib.error) as err:
            logger.warning("%s%s is damaged after %d bytes: %s", day, _ROLLED, read, err)
            yield None

    def _day(self, moment_ms: int) -> str:
        return f"{self.root}/{datetime.fromtimestamp(moment_ms / 1000, UTC):%Y/%m/%d}"


def _parse(line: bytes) -> Attempt | None:
    try:
        return Attempt.from_json(line)
    except ValueError:
        return None


def _days(since_ms: int, now_ms: int) -> Iterator[int]:
    """Yield a moment of each day (UTC) from `since_ms` to `now_ms`."""
    for day in range(since_ms // DAY_MS, now_ms // DAY_MS + 1):
        yield day * DAY_MS
