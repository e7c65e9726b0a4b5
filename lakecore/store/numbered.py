"""This module lists files of a directory whose names end with a number: snapshots, schemas, changelogs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakecore.fs.file_io import FileStatus
from lakecore.metadata.json_record import whole_number

__all__ = ["numbered"]


def numbered(pattern: re.Pattern[str], statuses: Iterable[FileStatus]) -> tuple[int, ...]:
    """Return the numbers of files whose names match `pattern` (its first group), ascending.

    Names that no writer makes are ignored: those with more than 19 digits, or with leading zeros, which
    would be another file than the one of that number.
    """
    matches = (pattern.fullmatch(status.name) for status in statuses)
    numbers = (whole_number(match[1]) for match in matches if match and _is_canonical(match[1]))
    return tuple(sorted(number for number in numbers if number is not None))


def _is_canonical(text: str) -> bool:
    return text == "0" or not text.startswith("0")
