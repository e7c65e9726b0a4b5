"""Signs of life: as long as the work lasts, for every lease of it, and never after."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

from lakecore.errors import UnavailableError
from lakecore.maintain.lease.heartbeat import Heartbeat

SECONDS = 10


class Counted:
    """A lease that counts its signs of life; some of them fail."""

    path = "memory://lease"

    def __init__(self, millis: int = 30, failures: int = 0) -> None:
        self.millis, self.failures, self.beats = millis, failures, 0
        self.beaten = threading.Condition()

    def renew(self) -> None:
        with self.beaten:
            self.beats += 1
            self.beaten.notify_all()
            if self.beats <= self.failures:
                raise UnavailableError("storage is away")

    def lives(self, beats: int) -> bool:
        """Whether there are so many more of them soon."""
        with self.beaten:
            wanted = self.beats + beats
            return self.beaten.wait_for(lambda: self.beats >= wanted, SECONDS)


def lease(**about: int) -> Any:
    return cast(Any, Counted(**about))


def test_every_lease_is_renewed_while_its_work_lasts() -> None:
    first, second = lease(), lease()
    with Heartbeat() as heart, heart.keeping(first), heart.keeping(second):
        assert first.lives(2)
        assert second.lives(2)


def test_a_lease_that_was_given_back_is_left_alone_though_others_go_on() -> None:
    done, other = lease(), lease()
    with Heartbeat() as heart, heart.keeping(other):
        with heart.keeping(done):
            assert done.lives(1)
        beats = done.beats
        assert other.lives(3)
        assert done.beats == beats


def test_a_sign_of_life_that_fails_is_not_the_last_one() -> None:
    troubled = lease(failures=2)
    with Heartbeat() as heart, heart.keeping(troubled):
        assert troubled.lives(3)


def test_there_are_three_signs_of_life_in_the_length_of_a_lease() -> None:
    kept = lease(millis=300)
    since = time.monotonic()
    with Heartbeat() as heart, heart.keeping(kept):
        assert kept.lives(1)
        assert time.monotonic() - since >= 0.09


def test_no_thread_is_left_when_the_work_is_over() -> None:
    before = threading.active_count()
    with Heartbeat() as heart, heart.keeping(lease()):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
