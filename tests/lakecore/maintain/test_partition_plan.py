"""The times that partitions stand for, and which of them are too old."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakecore.errors import InvalidInputError
from lakecore.maintain.partitions.plan import AgedPartition, ExpireRule, ExpireStrategy, expired_partitions
from lakecore.maintain.partitions.times import time_of

DAY = 86_400_000


def millis(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-02-29", millis(2024, 2, 29)),
        ("2023-02-29", millis(2023, 3, 1)),
        ("1900-02-29", millis(1900, 3, 1)),
        ("2000-02-29", millis(2000, 2, 29)),
        ("2024-5-6 7:8:9", millis(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06 07:08:59.25", millis(2024, 5, 6, 7, 8, 59, 250_000)),
        ("2024-12-31 23:59:61", millis(2025, 1, 1, 0, 0, 1)),
        ("2024-14-01", millis(2025, 2, 1)),
        ("20240506", None),
        (None, None),
    ],
)
def test_times_without_a_formatter(text: str | None, time: int | None) -> None:
    assert time_of(["dt"], [text], None, None) == time


@pytest.mark.parametrize(
    ("text", "formatter", "time"),
    [
        ("20240506", "yyyyMMdd", millis(2024, 5, 6)),
        ("20230231", "yyyyMMdd", millis(2023, 2, 28)),
        ("19000231", "yyyyMMdd", millis(1900, 2, 28)),
        ("20240231", "yyyyMMdd", millis(2024, 2, 29)),
        ("2024-05-06T07:08:09", "yyyy-MM-dd'T'HH:mm:ss", millis(2024, 5, 6, 7, 8, 9)),
        ("2024050625", "yyyyMMddHH", None),
        ("20240006", "yyyyMMdd", None),
        ("20241306", "yyyyMMdd", None),
        ("20240500", "yyyyMMdd", None),
        ("20240532", "yyyyMMdd", None),
        ("202405060060", "yyyyMMddHHmm", None),  # hour 0, minute 60
        ("20240506000060", "yyyyMMddHHmmss", None),
    ],
)
def test_times_with_a_formatter(text: str, formatter: str, time: int | None) -> None:
    assert time_of(["dt"], [text], None, formatter) == time


def test_a_pattern_puts_columns_together() -> None:
    assert time_of(["dt", "hour"], ["2024-05-06", "7"], "$dt $hour:00:00", None) == millis(2024, 5, 6, 7)
    assert time_of(["dt", "hour"], ["2024-05-06", None], "$dt $hour:00:00", None) is None


def partition(text: str | None, updated_ms: int = 0) -> AgedPartition:
    return AgedPartition(values={"dt": text}, texts=(text,), updated_ms=updated_ms)


def rule(days: int, strategy: ExpireStrategy = ExpireStrategy.VALUES_TIME, most: int = 9) -> ExpireRule:
    return ExpireRule(
        expiration_ms=days * DAY, strategy=strategy, pattern=None, formatter=None, max_expires=most
    )


def test_partitions_go_when_their_time_is_over() -> None:
    days = [partition(f"2024-05-0{day}") for day in (3, 1, 2)]
    none = partition("soon")
    old, timeless = expired_partitions([*days, none], rule(2), millis(2024, 5, 4))
    assert (old, timeless) == ([days[1]], [none])
    old, _ = expired_partitions([*days, none], rule(2), millis(2024, 5, 4) + 1)
    assert old == [days[1], days[2]]
    old, _ = expired_partitions(days, rule(1, most=1), millis(2024, 5, 9))
    assert old == [days[1]]


def test_partitions_go_by_their_last_change() -> None:
    young, old = partition("2020-01-01", 2 * DAY), partition("2030-01-01", DAY - 1)
    assert expired_partitions([young, old], rule(1, ExpireStrategy.UPDATE_TIME), 2 * DAY) == ([old], [])


def test_no_run_without_a_partition_to_go() -> None:
    with pytest.raises(InvalidInputError, match="at least 1"):
        rule(1, most=0)
