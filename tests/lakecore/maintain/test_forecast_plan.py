"""Estimates follow what earlier runs took; the risk follows how often others committed of late."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.maintain.forecast.plan import (
    Environment,
    PastRun,
    RecentCommit,
    Throughput,
    Work,
    forecast,
    risk_of,
)

PACE = Throughput(seconds=1, files=10, bytes=100, rows=10, memory=1000, memory_of_byte=2, most_of_bytes=5000)
WORK = Work(files=20, bytes=400, rows=10)  # 1 s + 2 s + the larger of 4 s and 1 s
TAKES = frozenset({"COMPACT", "OVERWRITE"})
NOW = 10_000_000
ALONE = Environment(now_ms=NOW)


def commits(
    kind: str, every_ms: int, count: int = 8, *, by_lakecore: bool = False
) -> tuple[RecentCommit, ...]:
    return tuple(
        RecentCommit(time_ms=NOW - n * every_ms, kind=kind, by_lakecore=by_lakecore)
        for n in range(1, count + 1)
    )


def test_without_earlier_runs_the_defaults_are_taken_and_named() -> None:
    found = forecast(WORK, [], PACE, ALONE, TAKES)
    assert (found.seconds, found.seconds_low, found.seconds_high) == (7, 2.333, 21)
    assert found.memory == 1800
    assert found.based_on.startswith("defaults (1 s, 10 files/s")
    assert forecast(replace(WORK, bytes=10**6), [], PACE, ALONE, TAKES).memory == 6000


def test_earlier_runs_say_how_far_off_the_defaults_are() -> None:
    past = [PastRun(work=WORK, seconds=seconds, memory=3600) for seconds in (14, 28, 3.5)]
    found = forecast(WORK, past, PACE, ALONE, TAKES)
    assert (found.seconds, found.seconds_low, found.seconds_high) == (14, 3.5, 28)
    assert found.memory == 3600
    assert "3 earlier runs" in found.based_on
    larger = Work(files=200, bytes=4000, rows=100)
    assert forecast(larger, past, PACE, ALONE, TAKES).seconds == 2 * 61


@given(
    st.lists(st.tuples(st.integers(1, 10**4), st.integers(0, 10**9), st.floats(0.01, 1e4)), max_size=20),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_more_work_never_takes_less(runs: list[tuple[int, int, float]], few: int, more: int) -> None:
    past = [PastRun(work=Work(files=f, bytes=b), seconds=s) for f, b, s in runs]
    less = forecast(Work(files=few, bytes=few), past, PACE, ALONE, TAKES)
    larger = forecast(Work(files=few + more, bytes=few + more), past, PACE, ALONE, TAKES)
    assert less.seconds <= larger.seconds
    assert less.memory <= larger.memory
    assert less.seconds_low <= less.seconds <= less.seconds_high
    assert 0 <= less.risk.probability <= 1


@pytest.mark.parametrize(
    ("around", "seconds", "level", "words"),
    [
        (ALONE, 3600, "none", "no other writer"),
        (
            Environment(now_ms=NOW, commits=commits("COMPACT", 1000, by_lakecore=True)),
            3600,
            "none",
            "no other writer",
        ),
        (
            Environment(now_ms=NOW, commits=commits("APPEND", 1000)),
            60,
            "none",
            "60.0 more commits are expected",
        ),
        (Environment(now_ms=NOW, commits=commits("COMPACT", 100_000)), 0.5, "none", "another compaction job"),
        (Environment(now_ms=NOW, commits=commits("COMPACT", 100_000)), 5, "low", "another compaction job"),
        (
            Environment(now_ms=NOW, commits=commits("COMPACT", 100_000)),
            30,
            "medium",
            "another compaction job",
        ),
        (Environment(now_ms=NOW, commits=commits("OVERWRITE", 1000)), 30, "high", "8 were of a kind"),
        (Environment(now_ms=NOW, lease="nightly"), 1, "high", "nightly holds the table's lease"),
        (Environment(now_ms=NOW, inline=True), 1, "none", "write-only is not set"),
        (Environment(now_ms=NOW, holders=("tag eod keeps",)), 1, "none", "tag eod keeps"),
    ],
)
def test_the_risk_of_a_conflict(around: Environment, seconds: float, level: str, words: str) -> None:
    found = risk_of(around, seconds, TAKES)
    assert (found.level, words in found.words) == (level, True), found
    assert found.compactor == ("another compaction job" in found.words)


def test_runs_that_lost_work_raise_the_risk_and_a_burst_counts_more_than_the_average() -> None:
    past = [PastRun(work=WORK, seconds=7, lost=True)] * 3
    assert forecast(WORK, past, PACE, ALONE, TAKES).risk.level == "high"
    burst = (*commits("APPEND", 1000), *commits("APPEND", 1_000_000)[4:])
    assert risk_of(Environment(now_ms=NOW, commits=burst), 10, TAKES).expected_commits == 10
