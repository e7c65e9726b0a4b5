"""This module has the retry policy of commits that lose to others: how often they retry, and how long they
wait. It is pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.options import Option, parse_duration_ms

__all__ = ["RetryPolicy"]

MAX_RETRIES = Option("commit.max-retries", int, 10, "Number of retries after other commits came first.")
MIN_WAIT = Option("commit.min-retry-wait", parse_duration_ms, 10, "Wait before the first retry (ms).")
MAX_WAIT = Option("commit.max-retry-wait", parse_duration_ms, 10_000, "Longest wait between retries (ms).")
TIMEOUT: Option[int | None] = Option(
    "commit.timeout", parse_duration_ms, None, "Time after which a commit is not retried (ms)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """It waits double from `min_wait_ms` to `max_wait_ms` and are stretched by up to a fifth, so that
    concurrent retries spread out.
    """

    max_retries: int
    min_wait_ms: int
    max_wait_ms: int
    timeout_ms: int | None

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> RetryPolicy:
        return cls(
            max_retries=MAX_RETRIES.read(raw),
            min_wait_ms=MIN_WAIT.read(raw),
            max_wait_ms=MAX_WAIT.read(raw),
            timeout_ms=TIMEOUT.read(raw),
        )

    def wait_seconds(self, retry: int, elapsed_ms: float, noise: float) -> float | None:
        """Return the seconds to wait before retry 0, 1, …, or None to give up. `noise` is uniform in [0,
        1).
        """
        if retry >= self.max_retries or (self.timeout_ms is not None and elapsed_ms > self.timeout_ms):
            return None
        wait: int = min(self.min_wait_ms << min(retry, 40), self.max_wait_ms)
        return wait * (1 + noise / 5) / 1000
