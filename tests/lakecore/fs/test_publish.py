"""Uncertain answers of storage, settled by reading back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakecore.errors import CommitUncertainError, NotFoundError, UnavailableError
from lakecore.fs.publish import publish_resolved
from tests.support.fake_clock import FakeClock

Answer = Callable[["Scripted"], bool]


class Scripted:
    """Storage with one file; each publish does what the script says."""

    def __init__(self, *answers: Answer, held: bytes | None = None, readable: bool = True) -> None:
        self.answers = list(answers)
        self.held = held
        self.readable = readable

    def publish(self, path: str, data: bytes) -> bool:
        self.data = data
        return self.answers.pop(0)(self)

    def read(self, path: str) -> bytes:
        if not self.readable:
            raise UnavailableError(f"cannot read {path}")
        if self.held is None:
            raise NotFoundError(path)
        return self.held


def lands(storage: Scripted) -> bool:
    if storage.held is not None:
        return False
    storage.held = storage.data
    return True


def lands_then_times_out(storage: Scripted) -> bool:
    lands(storage)
    raise CommitUncertainError("timeout")


def times_out(storage: Scripted) -> bool:
    raise CommitUncertainError("timeout")


def other_wins(storage: Scripted) -> bool:
    storage.held = b"other"
    raise CommitUncertainError("timeout")


def refuses(storage: Scripted) -> bool:
    raise UnavailableError("disk is full")


def client_repeats(storage: Scripted) -> bool:
    """The client library repeats a request that had landed, and is told that the name is taken."""
    lands(storage)
    return lands(storage)


def publish(storage: Scripted) -> bool:
    return publish_resolved(storage, "snapshot-1", b"ours", FakeClock())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "landed"),
    [
        ((lands,), True),
        ((lands_then_times_out,), True),
        ((client_repeats,), True),
        ((times_out, lands), True),
        ((times_out, times_out, lands_then_times_out), True),
        ((other_wins,), False),
    ],
)
def test_outcomes(answers: tuple[Answer, ...], landed: bool) -> None:
    assert publish(Scripted(*answers)) is landed


def test_a_name_that_is_taken_is_lost() -> None:
    assert publish(Scripted(lands, held=b"other")) is False


def test_a_certain_refusal_stays_one() -> None:
    with pytest.raises(UnavailableError, match="full"):
        publish(Scripted(refuses))


def test_a_refusal_after_a_timeout_is_not_certain() -> None:
    with pytest.raises(CommitUncertainError, match="delete nothing"):
        publish(Scripted(times_out, refuses, refuses, refuses))


def test_never_an_answer() -> None:
    with pytest.raises(CommitUncertainError, match="delete nothing"):
        publish(Scripted(times_out, times_out, times_out, times_out))


def test_unreadable_after_a_timeout() -> None:
    with pytest.raises(CommitUncertainError, match="cannot be read back"):
        publish(Scripted(times_out, readable=False))
