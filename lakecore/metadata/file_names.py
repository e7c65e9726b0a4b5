"""This module checks file names in records of the format. It is pure.

Whoever can write into a table's directory can write any name into its records. A valid name is one
component of a path: it can neither leave the directory that the format puts the file into, nor break a
line of a log.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from lakecore.errors import printable
from lakecore.metadata.manifest.byte_words import ByteWords

__all__ = [
    "checked_location",
    "checked_name",
    "checked_words",
    "name_problem",
    "parse_directory",
    "parse_prefix",
]

_MOST_BYTES = 255
"""The longest name in bytes: file systems and Paimon's own names stay within this limit."""
_MOST_PATH_BYTES = 4096
_REST = "x" * 100
"""The longest text that writers append to a prefix, in bytes."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_STEPS = re.compile(r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)")
_SEPARATORS = re.compile(r"[/\\]")
_LOW, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SLASH, _BACKSLASH, _DELETE = (_LOW * np.uint64(ord(char)) for char in "/\\\x7f")
_SPACE = _LOW * np.uint64(0x20)


def name_problem(name: str) -> str | None:
    """Return why a text cannot be the name of a file; None if it can."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is the name of a directory"
    if _SEPARATORS.search(name):
        return "contains a path separator"
    if _CONTROL.search(name):
        return "contains a control character"
    if len(name.encode("utf-8", "surrogatepass")) > _MOST_BYTES:
        return f"is longer than {_MOST_BYTES} bytes"
    return None


def checked_name(name: str, field: str) -> str:
    """Return `name` if it can be the name of a file. Raises ValueError naming `field`, the value and the
    reason.
    """
    problem = name_problem(name)
    if problem is not None:
        raise ValueError(f"{field} {_printable(name)} is not a file name: it {problem}")
    return name


def parse_directory(text: str) -> str:
    """Return `text` if it is a path below a table's directory (`a/b`) or empty. Raises ValueError."""
    if text.startswith("/"):
        raise ValueError("must be a directory below that of the table, not an absolute path")
    for part in text.rstrip("/").split("/") if text else ():
        problem = name_problem(part)
        if problem is not None:
            raise ValueError(f"must be a directory below that of the table, but a part of it {problem}")
    if ":/" in text:
        raise ValueError("must be a directory below that of the table, not a location")
    return text


def parse_prefix(text: str) -> str:
    """Return `text` if names of files can begin with it. Raises ValueError with the reason."""
    problem = name_problem(f"{text}{_REST}")
    if problem is not None:
        raise ValueError(f"must be the beginning of a file name, but such a name {problem}")
    return text


def checked_location(text: str, field: str) -> str:
    """Return `text` if it is a complete path or URI without `..`; where it may point to is checked
    elsewhere.

    Raises ValueError naming `field`, the value and the reason.
    """
    problem = None
    if not text.startswith("/") and ":/" not in text:
        problem = "it is not absolute"
    elif _CONTROL.search(text):
        problem = "it contains a control character"
    elif _STEPS.search(text):
        problem = "it contains . or .. as a part"
    elif len(text.encode("utf-8", "surrogatepass")) > _MOST_PATH_BYTES:
        problem = f"it is longer than {_MOST_PATH_BYTES} bytes"
    if problem is not None:
        raise ValueError(f"{field} {_printable(text)} is not the location of a file: {problem}")
    return text


def checked_words(names: ByteWords, field: str) -> ByteWords:
    """Check many UTF-8 names at once. Raises ValueError as `checked_name` does, for the first invalid
    name.

    It compares eight bytes of all names at a time, some 0.3 us a name; only names that are not ASCII, have
    one or two bytes or contain a suspicious byte are checked one by one.
    """
    suspicious = (names.length <= 2) | (names.length > _MOST_BYTES)
    for column in range(names.words.shape[1]):
        suspicious |= _has_special_byte(names.words[:, column], names.length - 8 * column)
    for lane in np.flatnonzero(suspicious).tolist():
        (raw,) = names.select(np.array([lane])).to_list()
        try:
            checked_name(raw.decode(), field)
        except UnicodeDecodeError as err:
            raise ValueError(f"{field} {_printable(raw.decode(errors='replace'))} is not UTF-8") from err
    return names


def _has_special_byte(
    words: npt.NDArray[np.uint64], remaining: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return, per word, whether one of its first `remaining` bytes is a control, a separator or not ASCII."""
    # bytes beyond the string are zero: they are made spaces, so that only its own count
    spare = np.clip(8 * remaining, 0, 64).astype(np.uint64)
    beyond = np.where(spare >= 64, np.uint64(0), _SPACE << np.minimum(spare, np.uint64(63)))
    whole = words | np.where(spare == 0, _SPACE, beyond)
    special = whole & _HIGH
    for mark in (_SLASH, _BACKSLASH, _DELETE):
        same = whole ^ mark
        special |= (same - _LOW) & ~same & _HIGH
    special |= (whole - _SPACE) & ~whole & _HIGH
    out: npt.NDArray[np.bool_] = special != 0
    return out


def _printable(text: str) -> str:
    return f"'{printable(text, 80)}'"
