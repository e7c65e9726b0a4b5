"""Every error lakecore raises on purpose, grouped by what the caller can do about it.

LakeError
    InvalidInputError        change the request
        InvalidOptionError   change that option
        UnsupportedError     a feature or format version this release does not have
    NotFoundError            no such table, snapshot, tag, branch
        ExpiredError         the snapshot that is needed has expired
    AlreadyExistsError       the name is taken
    UnavailableError         storage or catalog did not answer: retry
        BusyError            another chore holds the table's lease: come back later
    CommitConflictError      another commit changed what this one was built on: plan again
    CommitUncertainError     the commit may have landed: look before retrying, delete nothing
    CorruptDataError         the bytes break the format: stop
    ProofError               outputs do not equal inputs: nothing was committed
    OnHoldError              the table is on hold: nothing is removed from it until fsck is clean or a person
                             releases it
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

__all__ = [
    "MASK",
    "AlreadyExistsError",
    "BusyError",
    "CommitConflictError",
    "CommitUncertainError",
    "CorruptDataError",
    "ExpiredError",
    "InvalidInputError",
    "InvalidOptionError",
    "LakeError",
    "NotFoundError",
    "OnHoldError",
    "PrivilegeError",
    "ProofError",
    "UnavailableError",
    "UnsupportedError",
    "explain",
    "is_secret",
    "mask_secrets",
    "most_severe",
    "printable",
    "reason",
    "secrets_of",
    "without_secrets",
]

_REASON_LENGTH = 200
E = TypeVar("E", bound=BaseException)
_ADVICE = (
    "restore it from a copy, or go back to a snapshot or tag that does not need it; fsck lists all damage"
)
MASK = "****"
"""This text replaces a secret."""
_SECRET = (
    r"secret|authorization|cookie|passw(?:or)?d|passphrase|credential|token"
    r"|(?:private|access|account|api|sas)[-_.]?key|fsspec\.(?:\w+_(?:kwargs|options)|headers|auth)"
)
_PLAIN = (
    r"token\.provider|token-file|data-token\.enabled"
    r"|dlf\.token-(?:path|loader|ecs-metadata-url|ecs-role-name)"
)
"""These options of REST catalogs say where a token comes from, and hold none."""
_SECRET_KEY = re.compile(rf"^(?!(?:{_PLAIN})$).*(?:{_SECRET})", re.IGNORECASE | re.DOTALL)
_USERINFO = re.compile(r"(\w://[^/@\s:]*:)([^/@\s]+)@")
_ASSIGNED = re.compile(
    # A key is looked at once, from its first character: a long word costs no more than its length.
    rf"(?<![\w.-])((?!(?:{_PLAIN})=)(?=[\w.-]*?(?:{_SECRET}))[\w.-]++=)('[^']*'|\"[^\"]*\"|[^\s,;&]+)",
    re.IGNORECASE,
)
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, most: int | None = None) -> str:
    """Return `text` on one line for a terminal or a log: control characters and marks of direction become
    `\\x1b`.

    Names of tables, files, branches and users come from records that others wrote: raw, they could clear a
    screen or forge a line of a log. `most` is the length at which longer texts are cut.
    """
    if most is not None and len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return _UNPRINTABLE.sub(_escape, text)


def mask_secrets(text: str) -> str:
    """Return `text` without the passwords of `scheme://user:password@host` and the values behind keys of
    secrets.
    """
    return _ASSIGNED.sub(rf"\1{MASK}", _USERINFO.sub(rf"\1{MASK}@", text))


def is_secret(key: str) -> bool:
    """Return whether the value of an option of that name is a secret."""
    return _SECRET_KEY.search(key) is not None


def without_secrets(raw: Any) -> Any:
    """Return the same mappings, lists and texts, with `****` for the values of keys that are secrets."""
    if isinstance(raw, Mapping):
        return {
            key: MASK if value is not None and is_secret(str(key)) else without_secrets(value)
            for key, value in raw.items()
        }
    if isinstance(raw, list | tuple):
        return [without_secrets(value) for value in raw]
    return mask_secrets(raw) if isinstance(raw, str) else raw


def secrets_of(raw: Any) -> Iterator[str]:
    """Yield the values for which `without_secrets` shows `****`, so that others can mask them in their own
    logs.
    """
    if isinstance(raw, Mapping):
        for key, value in raw.items():
            if value is not None and is_secret(str(key)) and not isinstance(value, Mapping | list | tuple):
                yield str(value)
            else:
                yield from secrets_of(value)
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from secrets_of(value)
    elif isinstance(raw, str):
        for pattern in (_USERINFO, _ASSIGNED):
            yield from (match[2].strip("'\"") for match in pattern.finditer(raw))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def reason(err: BaseException) -> str:
    """Return the message of another library's error on one line of bounded length: some repeat their whole
    input.
    """
    if isinstance(err, UnicodeDecodeError):
        return f"not UTF-8 text at byte {err.start}"
    if isinstance(err, json.JSONDecodeError):
        return f"not JSON: {err}"
    if isinstance(err, KeyError) and err.args:
        return f"{err.args[0]!r} is missing"
    return " ".join(str(err).split())[:_REASON_LENGTH] or type(err).__name__


def explain(err: BaseException) -> str:
    """Return the message of an error, followed by the one-line notes that were added to it on its way."""
    notes = (note for note in getattr(err, "__notes__", ()) if "\n" not in note)
    return printable(mask_secrets("; ".join([str(err), *notes])))


def most_severe(errors: Sequence[E]) -> E:
    """Return the first failure that says that data is wrong, else the first one: retries mend the others."""
    return next((err for err in errors if isinstance(err, CorruptDataError | ProofError)), errors[0])


class LakeError(Exception):
    """This is the base class of all errors. State lives in `args`, so that errors survive pickling (Spark,
    Airflow).

    `str` is on one line and without secrets: what `printable` escapes and `mask_secrets` masks.
    """

    def __str__(self) -> str:
        return printable(mask_secrets(": ".join(str(part) for part in self.args)))


class InvalidInputError(LakeError):
    """The request names something impossible; the message says what to change."""


class InvalidOptionError(InvalidInputError):
    """A table or job option has a value that cannot be used."""


class UnsupportedError(InvalidInputError):
    """This release does not have the feature, or the version of the format."""


class PrivilegeError(LakeError):
    """The user of the catalog does not have the privilege, or is not known; nothing was done."""


class NotFoundError(LakeError):
    """The database, table, snapshot, tag, branch or file does not exist."""


class ExpiredError(NotFoundError):
    """The snapshot that is needed has expired."""


class AlreadyExistsError(LakeError):
    """The name is taken."""


class UnavailableError(LakeError):
    """Storage or catalog did not answer, or refused for now (full disk, lost network): retry."""


class BusyError(UnavailableError):
    """Another chore of lakecore holds the table's lease; nothing was done."""


class CommitConflictError(LakeError):
    """Another commit changed what this one was built on; it has to be planned again.

    `files` names what is in conflict as (serialised partition, bucket, file name), so that a caller can drop
    those and commit the rest; empty when nothing can be named.
    """

    def __init__(self, message: str, files: tuple[tuple[bytes, int, str], ...] = ()) -> None:
        super().__init__(message, files)
        self.files = files
        """The files in conflict, as (serialised partition, bucket, file name)."""

    def __str__(self) -> str:
        return printable(mask_secrets(str(self.args[0])))


class CommitUncertainError(LakeError):
    """The commit may have landed: look before retrying, delete nothing."""


class CorruptDataError(LakeError):
    """The bytes of `path` break the format. The message adds what can be done; `problem` is without that."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        """The damaged file."""
        self.problem = problem
        """What is wrong with it."""

    def __str__(self) -> str:
        return printable(mask_secrets(f"{self.path}: {self.problem}; {_ADVICE}"))


class ProofError(LakeError):
    """The proof before commit failed for `unit`: outputs do not equal inputs, nothing was committed."""

    def __init__(self, unit: str, problem: str) -> None:
        super().__init__(unit, problem)
        self.unit = unit
        """The unit, pick or commit that was refused."""
        self.problem = problem
        """What differs."""


class OnHoldError(LakeError):
    """The table is on hold, so this chore must not remove anything from it; nothing was removed.

    Trying again does not help by itself: the hold ends when `fsck` is clean, or when a person releases it.
    """

    def __init__(self, message: str, automatic: bool = True) -> None:
        super().__init__(message, automatic)
        self.automatic = automatic
        """Whether damage was found; False where a person asked for the hold."""

    def __str__(self) -> str:
        return printable(mask_secrets(str(self.args[0])))
