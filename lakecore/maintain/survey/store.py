"""This module keeps the surveys of a warehouse in `<warehouse>/.lakecore/survey`.

`latest.jsonl.gz` has the newest survey: a line about the survey, then one line a table. `<day>.jsonl.gz`
(UTC) is the last survey of each day. Each file is written whole. A survey of 10,000 tables is 15 MB
before and 1 MB after compression. Two surveys at once: the one that ends last stays; only observations
are lost.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.survey.activity import DayActivity
from lakecore.maintain.survey.plan import DAY_MS
from lakecore.maintain.survey.record import TableRecord

__all__ = ["StoredSurvey", "Survey", "SurveyStore"]

logger = logging.getLogger(__name__)

_VERSION = 1
_MOST_BYTES = 1 << 30
"""A survey that is longer after decompression is damaged or an attack; what is read until then counts."""
_LONGEST_LINE = 256 << 10
_RETENTION_DAYS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """These are the records of one survey, by table. `seconds` is how long it took. `damaged` counts the
    lines that could not be read.
    """

    started_ms: int = 0
    seconds: float = 0.0
    tables: tuple[TableRecord, ...] = ()
    activity: tuple[DayActivity, ...] = ()
    """These are sums over the attempts of the last days, the oldest day first."""
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class StoredSurvey:
    """It is a survey and the digest of the file that has it."""

    survey: Survey
    digest: bytes


@dataclass(frozen=True)
class SurveyStore(ServiceStore):
    """These are the surveys of a warehouse."""

    directory: ClassVar[str] = "survey"

    def latest(self) -> Survey | None:
        """Return the newest survey; None without one. Damaged lines are left out and counted.

        It costs one read. Raises UnavailableError when storage does not answer.
        """
        stored = self.latest_after(None)
        return stored.survey if stored is not None else None

    def latest_after(self, previous: StoredSurvey | None) -> StoredSurvey | None:
        """Return the newest survey as `latest` does: `previous` itself, without decoding anything, when its
        file is the one that `previous` came from.
        """
        return self._read(f"{self.root}/latest.jsonl.gz", previous)

    def of_day(self, day: str) -> Survey | None:
        """Return the last survey of a day, `2026-11-22` (UTC). It raises as `latest` does."""
        stored = self._read(f"{self.root}/{day}.jsonl.gz")
        return stored.survey if stored is not None else None

    def days(self) -> tuple[str, ...]:
        """Return the days that have a survey, the oldest first. It costs a listing."""
        names = (status.name.removesuffix(".jsonl.gz") for status in self.file_io.list(self.root))
        return tuple(sorted(name for name in names if _is_day(name)))

    def add(self, survey: Survey) -> None:
        """Store a survey as the newest one, and as that of its day. Surveys of days that are too old go."""
        data = _encode(survey)
        day = datetime.fromtimestamp(survey.started_ms / 1000, UTC).strftime("%Y-%m-%d")
        self.file_io.overwrite(f"{self.root}/{day}.jsonl.gz", data)
        self.file_io.overwrite(f"{self.root}/latest.jsonl.gz", data)
        oldest = datetime.fromtimestamp(survey.started_ms / 1000 - _RETENTION_DAYS * DAY_MS / 1000, UTC)
        for old in self.days():
            if old < oldest.strftime("%Y-%m-%d"):
                try:
                    self.file_io.delete(f"{self.root}/{old}.jsonl.gz")
                except LakeError as err:
                    logger.warning("the survey of %s could not be removed: %s", old, err)

    def _read(self, path: str, previous: StoredSurvey | None = None) -> StoredSurvey | None:
        try:
            data = self.file_io.read(path)
        except NotFoundError:
            return None
        digest = hashlib.sha256(data).digest()
        if previous is not None and previous.digest == digest:
            return previous
        return StoredSurvey(_decode(data, path), digest)


def _encode(survey: Survey) -> bytes:
    head = {
        "version": _VERSION,
        "started_ms": survey.started_ms,
        "seconds": survey.seconds,
        "activity": [asdict(day) for day in survey.activity],
    }
    lines: Iterable[Any] = (head, *(record.to_json() for record in survey.tables))
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    return gzip.compress(text.encode(), compresslevel=3, mtime=0)


def _decode(data: bytes, path: str) -> Survey:
    head = Survey()
    records: dict[str, TableRecord] = {}
    damaged = 0
    shared = _SharedFloats()  # many tables have the same rhythm
    for number, line in enumerate(_lines(data, path)):
        try:
            raw = json.loads(line, parse_float=shared.__getitem__)
            if number == 0:
                head = _head(raw)
                continue
            record = TableRecord.from_json(raw)
            records[record.table] = record
        except (ValueError, RecursionError):
            damaged += 1
    if damaged:
        logger.warning("%s: %d lines cannot be read", path, damaged)
    return replace(head, tables=tuple(records.values()), damaged=damaged)


class _SharedFloats(dict[str, float]):
    """It has one object for each number that a survey has, whichever table has it."""

    def __missing__(self, text: str) -> float:
        number = self[text] = float(text)
        return number


def _head(raw: Any) -> Survey:
    """Return a survey without its tables. Raises ValueError."""
    if not isinstance(raw, dict) or raw.get("version") != _VERSION:
        raise ValueError("the first line is not that of a survey of version 1")
    started, seconds = raw.get("started_ms"), raw.get("seconds")
    if type(started) is not int or not 0 <= started < 1 << 53 or not isinstance(seconds, int | float):
        raise ValueError("started_ms or seconds is not a number")
    try:
        activity = tuple(map(DayActivity.from_json, raw.get("activity", ())))
    except (KeyError, TypeError) as err:
        raise ValueError(f"activity has no sums of days: {err}") from err
    return Survey(started_ms=started, seconds=float(seconds), activity=activity)


def _lines(data: bytes, path: str) -> Iterator[bytes]:
    """Yield the lines as far as they can be decompressed; a line that is too long comes in pieces, which
    are damaged lines.
    """
    read = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while line := file.readline(_LONGEST_LINE):
                read += len(line)
                if read > _MOST_BYTES:
                    logger.warning("%s is longer than %d bytes; the rest is not read", path, _MOST_BYTES)
                    return
                yield line
    except (OSError, EOFError, zlib.error) as err:
        logger.warning("%s is damaged after %d bytes: %s", path, read, err)
        yield b""


def _is_day(name: str) -> bool:
    try:
        return datetime.strptime(name, "%Y-%m-%d").replace(tzinfo=UTC).strftime("%Y-%m-%d") == name
    except ValueError:
        return False
