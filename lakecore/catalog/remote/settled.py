"""This module finds out what became of a change whose answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakecore.catalog.remote.lost_answer import LostAnswerError
from lakecore.catalog.remote.pauses import pause_after
from lakecore.clock import Clock
from lakecore.errors import LakeError

__all__ = ["settled"]

A = TypeVar("A")

_TRIES = 4


def settled(send: Callable[[], A], look: Callable[[], A | None], clock: Clock) -> A:
    """Return the result of the change that `send` makes. When its answer is lost, `look` finds the result;
    None means that nothing has happened yet, and the change is sent again.

    The change must be one of which a second copy does nothing: it finds the name taken or gone, or its base
    replaced. Raises LostAnswerError when the outcome stays unknown, and the error of `send` where nothing
    happened.
    """
    lost: LostAnswerError | None = None
    for number in range(_TRIES):
        if number:
            clock.sleep(pause_after(number - 1, None, clock))
        try:
            return send()
        except LostAnswerError as err:
            lost = err
        except LakeError:
            if lost is None:
                raise
            outcome = _look_again(look, lost)
            if outcome is None:
                raise
            return outcome
        outcome = _look_again(look, lost)
        if outcome is not None:
            return outcome
    assert lost is not None
    raise lost


def _look_again(look: Callable[[], A | None], lost: LostAnswerError) -> A | None:
    try:
        return look()
    except LakeError as err:
        raise lost from err
