"""A few seconds of the soak of lookups, and that it would see what is wrong."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.lookup_soak import Soak, SoakTable, run


@pytest.mark.slow
def test_lookups_while_java_writes_and_servers_are_killed() -> None:
    soak = run(minutes=0.2, seed=3)
    assert soak.failures == []
    for who in (
        "local query",
        "full lookup table",
        "partial lookup table",
        "client",
        "lookup table of a service",
    ):
        assert soak.counts[who] > 0, who
    assert soak.counts["services killed"] > 0
    assert soak.counts["commits"] > 5


def test_answers_that_were_not_current_are_failures() -> None:
    table = SoakTable("t", {})
    for value in (1, 2):
        for state in table.begin({5: value}):
            state.done = time.monotonic()
    now = time.monotonic()
    assert table.staleness(5, 2, now, now) == 0
    assert 0 < table.staleness(5, 1, now, now) < 60
    assert table.staleness(5, 1, now - 3600, now) == 0
    assert table.staleness(5, 3, now, now) == float("inf")
    assert table.staleness(4, None, now, now) == 0
    soak = Soak()
    soak.judge("somebody", table, [(5, 2)], now, 0.0)
    assert soak.failures == []
    soak.judge("somebody", table, [(5, 3)], now, 10.0)
    assert len(soak.failures) == 1
    assert soak.ended.is_set()


def test_a_commit_that_is_under_way_may_be_seen_and_may_not() -> None:
    table = SoakTable("t", {}, sums=True)
    for state in table.begin({5: 4}):
        state.done = time.monotonic()
    table.begin({5: 3})
    now = time.monotonic()
    assert table.staleness(5, 4, now, now) == 0
    assert table.staleness(5, 7, now, now) == 0
    assert table.staleness(5, None, now, now) > 0
