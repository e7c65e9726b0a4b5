"""This module words the notes on snapshots that other writers replaced, for the report of the run that
published them.

A chore commits several layers below the code that writes its report. All of them publish in the thread of the
run, so their notes are collected there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["note_publication", "publication_notes"]

_NOTES: ContextVar[list[str] | None] = ContextVar("publication_notes", default=None)


@contextmanager
def publication_notes() -> Iterator[list[str]]:
    """Provide the list to which commits of this thread add their notes within the block; nested blocks use
    the innermost list.
    """
    notes: list[str] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def note_publication(note: str) -> None:
    """Add what an operator should know of a publication. Outside `publication_notes` it does nothing."""
    notes = _NOTES.get()
    if notes is not None and note:
        notes.append(note)
