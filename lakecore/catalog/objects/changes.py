"""This module checks changes of views and functions in Paimon's JSON, such as
`{"action": "setOption", "key": "a", "value": "b"}`. It is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError

__all__ = ["changed_entries", "changed_options", "check_change", "check_keys", "texts_of"]

_OF_ALL = {"setOption": ("key", "value"), "removeOption": ("key",), "updateComment": ("comment",)}


def check_change(raw: Any, own: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    """Return a change. `own` has the keys of each action of this kind of object, beside options and comment.

    Raises InvalidInputError for an unknown action, and for keys that are missing or unknown.
    """
    actions = {**_OF_ALL, **own}
    if not isinstance(raw, Mapping) or raw.get("action") not in actions:
        raise InvalidInputError(f"change {raw!r}: its action is none of {', '.join(sorted(actions))}")
    check_keys(raw, ("action", *actions[raw["action"]]))
    return raw


def check_keys(raw: Mapping[str, Any], keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raise InvalidInputError for keys that are missing or unknown."""
    missing = [key for key in keys if key not in raw]
    if missing:
        raise InvalidInputError(f"{raw!r} lacks {', '.join(missing)}")
    unknown = sorted(set(map(str, raw)) - {*keys, *optional})
    if unknown:
        raise InvalidInputError(f"{raw!r} has the unknown keys {', '.join(unknown)}")


def texts_of(raw: Any, what: str) -> dict[str, str]:
    """Return texts by text. Raises InvalidInputError for anything else."""
    if not isinstance(raw, Mapping) or not all(isinstance(value, str) for value in raw.values()):
        raise InvalidInputError(f"{what} {raw!r}: write texts by name, such as {{'a': 'b'}}")
    return {str(key): value for key, value in raw.items()}


def changed_options(options: Mapping[str, str], change: Mapping[str, Any]) -> dict[str, str]:
    """Return options after setOption or removeOption; other changes leave them."""
    changed = dict(options)
    if change["action"] == "setOption":
        changed[str(change["key"])] = str(change["value"])
    if change["action"] == "removeOption":
        changed.pop(str(change["key"]), None)
    return changed


def changed_entries(entries: Mapping[str, Any], action: str, key: str, value: Any) -> dict[str, Any]:
    """Return entries with one that is added, updated or dropped, as the first word of the action says.

    Raises AlreadyExistsError and NotFoundError as Java does.
    """
    if action.startswith("add") == (key in entries):
        error = AlreadyExistsError if key in entries else NotFoundError
        raise error(f"{action} {key!r}: there are {', '.join(sorted(entries)) or 'none'}")
    rest = {name: one for name, one in entries.items() if name != key}
    return rest if action.startswith("drop") else {**rest, key: value}
