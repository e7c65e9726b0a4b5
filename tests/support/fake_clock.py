"""A clock that moves only when told, so that tests of waiting take no time."""

from __future__ import annotations

import itertools
import uuid

__all__ = ["FakeClock"]

_ids = itertools.count(1)


class FakeClock:
    """Sleeping advances it and is recorded. Ids are fresh across instances."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = float(now_ms)
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic(self) -> float:
        return self.time_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time_ms += seconds * 1000

    def fresh_id(self) -> str:
        return str(uuid.UUID(int=next(_ids) << 64))
