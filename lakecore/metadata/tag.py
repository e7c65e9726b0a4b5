"""This module has tags: a tag is a snapshot kept by name, when it was created and how long it is retained;
it has the JSON of `tag/tag-<name>`.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, reason
from lakecore.metadata.json_record import json_object
from lakecore.metadata.snapshot import Snapshot
from lakecore.types.text import parse_timestamp, timestamp_text

__all__ = ["TAG_KEYS", "Tag"]

_CREATED = "tagCreateTime"
_RETAINED = "tagTimeRetained"
TAG_KEYS = (_CREATED, _RETAINED)
"""A tag has these keys beside those of its snapshot."""
_NANOS = 1_000_000_000
_LONGEST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag keeps a snapshot by name. `created` and `retained` are None if no time to live was set."""

    name: str
    snapshot: Snapshot
    created: int | None = None
    """It counts nanoseconds of the creator's local wall clock, as if it were UTC."""
    retained: int | None = None
    """This is the time to live in nanoseconds."""

    @classmethod
    def from_json(cls, text: str | bytes, path: str, name: str) -> Tag:
        """Parse a tag file. Raises CorruptDataError naming `path`, UnsupportedError for a newer snapshot
        version.
        """
        snapshot = Snapshot.from_json(text, path)
        try:
            raw = json_object(text, exact=True)
            created, retained = raw.get(_CREATED), raw.get(_RETAINED)
            return cls(
                name=name,
                snapshot=snapshot,
                created=None if created is None else _nanos(created),
                retained=None if retained is None else _duration(retained),
            )
        except (ValueError, TypeError, ArithmeticError, AttributeError, LakeError) as err:
            raise CorruptDataError(path, f"is not a tag: {reason(err)}") from err

    def to_json(self) -> str:
        """Encode the snapshot's keys, then the tag's own."""
        raw = json.loads(self.snapshot.to_json())
        if self.created is not None:
            raw[_CREATED] = [int(part) for part in re.split("[- :.]", timestamp_text(self.created, 9))]
        if self.retained is None:
            return json.dumps(raw, indent=2)
        head, _, tail = json.dumps({**raw, _RETAINED: 0}, indent=2).rpartition("0")
        seconds, rest = divmod(self.retained, _NANOS)
        return f"{head}{seconds}.{rest:09d}{tail}"


def _duration(seconds: Any) -> int:
    """Return the nanoseconds of a number of seconds. Raises TypeError, ValueError."""
    if not isinstance(seconds, int | Decimal) or isinstance(seconds, bool):
        raise TypeError(f"{_RETAINED} is not a number")
    if not 0 <= seconds < _LONGEST:
        raise ValueError(f"{_RETAINED} is out of range")
    return int(seconds * _NANOS)


def _nanos(parts: Any) -> int:
    """Return the nanoseconds of `[2026, 1, 31, 9, 30(, second(, nanosecond))]`, or of ISO text."""
    if isinstance(parts, str):
        return parse_timestamp(parts)
    year, month, day, hour, minute, second, nano = (*(int(part) for part in parts), 0, 0)[:7]
    return parse_timestamp(f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}") + nano
