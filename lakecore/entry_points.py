"""This module calls functions of other packages, which they register as entry points. Whatever such a
function raises is logged, and becomes a note.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from lakecore.errors import reason

__all__ = ["has_entry_points", "run_all"]

logger = logging.getLogger(__name__)

_calling: ContextVar[bool] = ContextVar("lakecore_entry_points", default=False)


def has_entry_points(group: str) -> bool:
    """Return whether a package has registered an entry point of the group."""
    return bool(_entry_points(group))


def run_all(group: str, what: str, events: Sequence[tuple[object, str, str]]) -> tuple[str, ...]:
    """Call all entry points of a group for each event, and return a note for each call that failed. It raises
    nothing. `what` is what a note calls such a function. With an event come the directory of the table, and
    what the note says of it.

    What a callback does itself calls no callbacks, of whatever group.
    """
    if _calling.get():
        return ()
    token = _calling.set(True)
    try:
        return tuple(_failures(group, what, events))
    finally:
        _calling.reset(token)


def _failures(group: str, what: str, events: Sequence[tuple[object, str, str]]) -> Iterator[str]:
    for entry_point in _entry_points(group):
        for event, table_path, subject in events:
            try:
                callback: Callable[[object], object] = entry_point.load()
                callback(event)
            except BaseException as err:  # noqa: BLE001 - an interrupt, too: whoever commits would clean up
                note = (
                    f"the {what} {entry_point.name} ({entry_point.value}) failed {subject}: "
                    f"{type(err).__name__}: {reason(err)}"
                )
                logger.warning("%s: %s", table_path, note)
                yield note


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=group), key=lambda one: one.name))
