"""This module decides which partitions are too old. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.maintain.partitions.times import check_formatter, time_of

__all__ = ["AgedPartition", "ExpireRule", "ExpireStrategy", "expired_partitions"]


class ExpireStrategy(Enum):
    VALUES_TIME = "values-time"
    """The strategy uses the time that a partition's values stand for."""
    UPDATE_TIME = "update-time"
    """The strategy uses the time at which its youngest file was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRule:
    """This rule says which partitions expire: those older than `expiration_ms`, and at most `max_expires` in
    one run.
    """

    expiration_ms: int
    strategy: ExpireStrategy
    pattern: str | None
    formatter: str | None
    max_expires: int

    def __post_init__(self) -> None:
        if self.max_expires < 1:
            raise InvalidInputError(f"max-expires {self.max_expires}: must be at least 1")
        if self.formatter is not None:
            check_formatter(self.formatter)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedPartition:
    """This partition has files. `values` are internal values by column, `texts` as rules see them, and
    `updated_ms` is the time of its youngest file, None where it is unknown. `files` is their number, where it
    was counted.
    """

    values: Mapping[str, Any]
    texts: tuple[str | None, ...]
    updated_ms: int | None
    files: int = 0


def expired_partitions(
    partitions: Sequence[AgedPartition], rule: ExpireRule, now_ms: int
) -> tuple[list[AgedPartition], list[AgedPartition]]:
    """Return the partitions to drop, in order of their text, and those that have no time by the strategy of
    the rule, which never expire.
    """
    end = now_ms - rule.expiration_ms
    timeless: list[AgedPartition] = []
    old: list[AgedPartition] = []
    for one in partitions:
        time = one.updated_ms
        if rule.strategy is ExpireStrategy.VALUES_TIME:
            time = time_of(list(one.values), one.texts, rule.pattern, rule.formatter)
        if time is None:
            timeless.append(one)
        elif time < end:
            old.append(one)
    old.sort(key=lambda one: ",".join(text or "" for text in one.texts))
    return old[: rule.max_expires], timeless
