"""This module turns answers of a REST server into values and errors. It is pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.remote.lost_answer import UNKNOWN, LostAnswerError
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    mask_secrets,
    printable,
)

__all__ = ["MissingResourceError", "answer_of", "error_of", "names_of", "object_of"]

_LONGEST = 500
_NAMED = ("DATABASE", "TABLE", "VIEW", "FUNCTION", "BRANCH", "TAG")
"""Users name resources of these kinds."""


class MissingResourceError(NotFoundError):
    """The server has no such resource. `kind` is TABLE, SNAPSHOT, …, or empty where it does not say."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def answer_of(what: str, body: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty answer is an empty object. Raises UnavailableError."""
    if not body.strip():
        return {}
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as err:
        raise _no_json(what) from err
    if not isinstance(answer, dict):
        raise _no_json(what)
    return answer


def object_of(what: str, answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object that an answer has under a key, empty where it has none. Raises UnavailableError."""
    value = answer.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise UnavailableError(f"{what}: {key} of the answer is no object; look into the log of the server")
    return value or {}


def names_of(what: str, part: Sequence[Any]) -> list[str]:
    """Return the elements of a list, which are names. Raises UnavailableError."""
    if not all(isinstance(one, str) for one in part):
        raise UnavailableError(
            f"{what}: the answer lists other things than names; look into the log of the server"
        )
    return list(part)


def error_of(what: str, status: int, body: bytes, *, effect: bool) -> LakeError:
    """Return the error for a status that is no success, with the text of the server and the remedy.

    `effect`: the request changes something, so that a failed server may have done it.
    """
    raw = _error_body(body)
    message = printable(mask_secrets(str(raw.get("message") or "no reason is given")), _LONGEST)
    text = f"{what}: the server answered {status} ({message})"
    match status:
        case 400:
            return InvalidInputError(f"{text}; change the request")
        case 401:
            return UnavailableError(f"{text}; give a valid token or valid keys by the options of the catalog")
        case 403:
            return UnavailableError(f"{text}; ask the owner of the catalog for the privilege")
        case 404:
            kind = str(raw.get("resourceType") or "").upper()
            remedy = "; check the name, and whether it was renamed or dropped" if kind in _NAMED else ""
            return MissingResourceError(text + remedy, kind)
        case 409:
            return AlreadyExistsError(f"{text}; choose another name")
        case 501:
            return UnsupportedError(f"{text}; this server cannot do it")
        case 429:
            return UnavailableError(f"{text}; try again later")
    if effect:
        return LostAnswerError(f"{text}; {UNKNOWN}")
    return UnavailableError(f"{text}; try again, and look into the log of the server")


def _error_body(body: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, Mapping) else {}


def _no_json(what: str) -> UnavailableError:
    return UnavailableError(
        f"{what}: the answer is no JSON object; check that the option uri is the address of a REST catalog"
    )
