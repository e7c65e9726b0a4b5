"""This module counts what the work of a window used, and says when its budget is used up.

A budget belongs to a run: all attempts that it began count, on whatever worker, and a retry goes on where the
first try ended. It is looked at before a table begins; a table that has begun is worked on to its end, or to
the end of the window, so that the sum may be exceeded by one table for each worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.jobs.cost.prices import PriceList
from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.origin import count_usage
from lakecore.maintain.usage import Usage, UsageStore, usage_key
from lakecore.options import parse_size

__all__ = ["Budget", "Usage", "declare_budget", "usage_of_run"]

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """These are the limits of a window; None is no limit."""

    bytes: int | None = None
    core_seconds: float | None = None
    money: float | None = None
    """It limits the core seconds, by the price list of the connection."""

    @classmethod
    def parse(cls, size: Any, core_seconds: Any, money: Any) -> Budget:
        """Read limits as users write them: `200 gb`, `36000`, `2.50`; an empty one is no limit. Raises
        InvalidInputError.
        """
        return cls(
            bytes=_limit("budget_bytes", size, parse_size),
            core_seconds=_limit("budget_core_seconds", core_seconds, float),
            money=_limit("budget_money", money, float),
        )

    @property
    def is_given(self) -> bool:
        """Return whether there is any limit."""
        return not (self.bytes is None and self.core_seconds is None and self.money is None)

    def reason_to_stop(self, usage: Usage, prices: PriceList) -> str:
        """Return why nothing more may begin; the text is empty while the budget lasts. Raises
        InvalidInputError for a limit of money without a price.
        """
        if self.bytes is not None and usage.bytes >= self.bytes:
            return f"the budget of {self.bytes} bytes is used up ({usage.bytes})"
        limits = [self.core_seconds] if self.core_seconds is not None else []
        if self.money is not None:
            limits.append(prices.core_seconds(self.money))
        if limits and usage.core_seconds >= min(limits):
            return f"the budget of {min(limits):.0f} core seconds is used up ({usage.core_seconds:.0f})"
        return ""


def _limit(name: str, value: Any, parse: Callable[[str], N]) -> N | None:
    if value is None or not str(value).strip():
        return None
    try:
        limit = parse(str(value))
        if 0 <= limit < math.inf:
            return limit
    except ValueError:
        pass
    raise InvalidInputError(f"{name}={value!r} is no limit: write a number that is not negative")


def declare_budget(run: Mapping[str, Any], started_ms: int) -> None:
    """Let the attempts of this process add what they use to the sum of their run, from now on. Raises
    InvalidInputError without a run.
    """
    count_usage(_key(run, started_ms))


def usage_of_run(lake: Lake, run: Mapping[str, Any], started_ms: int) -> Usage:
    """Return what the attempts of a run used so far. It costs one listing. Raises UnavailableError,
    InvalidInputError without a run.
    """
    return UsageStore(lake.file_io, lake.warehouse).sum(_key(run, started_ms))


def _key(run: Mapping[str, Any], started_ms: int) -> str:
    if not run:
        raise InvalidInputError("a budget needs a run whose attempts count: start the job as a task of a DAG")
    return usage_key(run, started_ms)
