"""What became of snapshots that other writers replaced, for the report of the run that published them.

A chore commits in several layers below the one that writes its report. They all publish in the thread of the
run, so what they note is collected there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["landing_notes", "note_landing"]

_NOTES: ContextVar[list[str] | None] = ContextVar("landing_notes", default=None)


@contextmanager
def landing_notes() -> Iterator[list[str]]:
    """The list to which commits of this thread add their notes within the block; the innermost list."""
    notes: list[str] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def note_landing(note: str) -> None:
    """Adds what a person should know of a publication. Nothing happens where nobody collects notes."""
    notes = _NOTES.get()
    if notes is not None and note:
        notes.append(note)
