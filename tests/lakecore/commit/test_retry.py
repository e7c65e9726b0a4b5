"""Waits between tries double up to a bound, spread by a fifth, and end after so many tries or so long."""

from __future__ import annotations

import pytest

from lakecore.commit.retry import RetryPolicy

OPTIONS = {"commit.max-retries": "6", "commit.min-retry-wait": "10 ms", "commit.max-retry-wait": "200 ms"}


def test_waits_double_up_to_the_longest_one() -> None:
    policy = RetryPolicy.from_options(OPTIONS)
    assert [policy.wait_seconds(retry, 0, 0) for retry in range(7)] == [
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.2,
        None,
    ]
    assert policy.wait_seconds(1, 0, 0.5) == pytest.approx(0.022)


def test_there_is_no_try_after_the_time_is_over() -> None:
    policy = RetryPolicy.from_options({**OPTIONS, "commit.timeout": "1 s"})
    assert policy.wait_seconds(0, 1000, 0) == 0.01
    assert policy.wait_seconds(0, 1001, 0) is None
    endless = RetryPolicy.from_options({"commit.max-retries": "1000"})
    assert endless.wait_seconds(999, 10**9, 0) == 10
