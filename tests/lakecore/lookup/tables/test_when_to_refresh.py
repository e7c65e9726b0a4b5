"""When a lookup table is refreshed, and which partitions it loads: pure rules, with times and partitions given."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from lakecore.errors import InvalidOptionError, LakeError
from lakecore.lookup.tables.loaded_partitions import parse_loaded, partitions_of
from lakecore.lookup.tables.lookup_options import LookupOptions, check_given
from lakecore.lookup.tables.refresh_periods import may_refresh, parse_periods
from lakecore.lookup.tables.refresh_turns import RefreshTurns
from tests.support.builders import table_schema
from tests.support.fake_clock import FakeClock


class Recorded:
    """A cache that only says what was asked of it, and by which thread."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.pending = 1
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def load(self) -> None:
        self._call("load")

    def refresh(self) -> None:
        self._call("refresh")

    def _call(self, name: str) -> None:
        assert self.gate.wait(20)
        self.calls.append((name, threading.current_thread() is not threading.main_thread()))
        error, self.error = self.error, None
        if error is not None:
            raise error


def refresher(cache: Recorded, **raw: str) -> tuple[RefreshTurns, FakeClock]:
    clock = FakeClock()
    options = LookupOptions.read(
        {key.replace("__", ".").replace("_", "-"): value for key, value in raw.items()}
    )
    made = RefreshTurns(cache, options, clock)
    made.begin()
    cache.calls.clear()
    return made, clock


def test_a_refresh_comes_once_an_interval() -> None:
    cache = Recorded()
    made, clock = refresher(
        cache, lookup__continuous__discovery_interval="5 s", continuous__discovery_interval="1 s"
    )
    for _ in range(12):
        made.refresh_when_due()
        clock.sleep(1)
    assert cache.calls == [("refresh", False), ("refresh", False)]


def test_the_interval_of_streams_holds_where_lookups_have_none() -> None:
    assert LookupOptions.read({}).interval_ms == 10_000
    assert LookupOptions.read({"continuous.discovery-interval": "3 s"}).interval_ms == 3_000
    assert LookupOptions.read({"lookup.refresh.interval": "2 s"}).interval_ms == 2_000


def test_no_refresh_in_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        periods = parse_periods("2023-11-15 06:00->2023-11-15 07:00, 2023-11-16 00:00->2023-11-16 00:00")
        start = 1_699_999_200_000  # 2023-11-14 22:00 UTC
        hour = 3_600_000
        times = (start - 1, start, start + hour, start + hour + 1)
        assert [may_refresh(periods, now) for now in times] == [True, False, False, True]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["2023-11-15 06:00", "a->b", "2023-11-15 07:00->2023-11-15 06:00", "x->y->z"]
)
def test_a_period_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"lookup\.refresh\.time-periods-blacklist"):
        LookupOptions.read({"lookup.refresh.time-periods-blacklist": text})


def test_many_pending_snapshots_are_refreshed_by_the_lookup_itself() -> None:
    cache = Recorded()
    made, clock = refresher(
        cache,
        lookup__refresh__async="true",
        lookup__refresh__async__pending_snapshot_count="3",
        continuous__discovery_interval="0 s",
    )
    cache.gate.clear()
    cache.pending = 3
    made.refresh_when_due()  # goes to the thread, which waits
    made.refresh_when_due()  # one is under way
    assert cache.calls == []
    cache.pending = 4
    threading.Timer(0.05, cache.gate.set).start()
    made.refresh_when_due()  # waits for it, and refreshes
    assert cache.calls == [("refresh", True), ("refresh", False)]
    made.close()
    clock.sleep(1)


def test_an_error_of_the_thread_is_raised_by_the_next_lookup_and_then_tried_again() -> None:
    cache = Recorded()
    made, _ = refresher(cache, lookup__refresh__async="true", continuous__discovery_interval="0 s")
    cache.error = LakeError("storage did not answer")
    made.refresh_when_due()
    assert made._running is not None
    made._running.exception(20)  # it has ended
    with pytest.raises(LakeError, match="did not answer"):
        made.refresh_when_due()
    made.refresh_when_due()
    made.close()
    assert len(cache.calls) >= 2


def test_very_many_pending_snapshots_are_loaded_as_a_whole() -> None:
    cache = Recorded()
    made, _ = refresher(
        cache, lookup__refresh__full_load_threshold="10", continuous__discovery_interval="0 s"
    )
    for cache.pending in (9, 10):
        made.refresh_when_due()
    assert [name for name, _ in cache.calls] == ["refresh", "load"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_pt()", [("b", 2)]),
        ("MAX_TWO_PT()", [("b", 2), ("b", 1)]),
        ("dt=max_pt()", [("b", 2), ("b", 1), ("b", None)]),
        ("dt=max_pt(),hh=max_pt()", [("b", 2)]),
        ("dt=a,hh=1;dt=c", [("a", 1), ("c", None)]),
    ],
)
def test_the_partitions_that_are_loaded(text: str, expected: list[tuple[Any, ...]]) -> None:
    schema = table_schema(
        "dt STRING, hh INT, k INT NOT NULL", primary_keys=("dt", "hh", "k"), partition_keys=("dt", "hh")
    )
    existing = [("a", 3), ("b", 1), ("b", None), ("b", 2), (None, 9)]
    assert list(partitions_of(parse_loaded(schema, "__DEFAULT_PARTITION__", text), existing)) == expected
    assert partitions_of(parse_loaded(schema, "__DEFAULT_PARTITION__", "max_pt()"), []) == ()


@pytest.mark.parametrize("text", ["hh=max_pt()", "dt=max_pt(),hh=1", "x=max_pt()", "nonsense"])
def test_partitions_that_cannot_be_meant_are_refused(text: str) -> None:
    schema = table_schema(
        "dt STRING, hh INT, k INT NOT NULL", primary_keys=("dt", "hh", "k"), partition_keys=("dt", "hh")
    )
    with pytest.raises(LakeError, match="dt"):
        parse_loaded(schema, "__DEFAULT_PARTITION__", text)


@pytest.mark.parametrize(
    "key", ["limit", "lookup.async", "lookup.cache-rows", "scan.snapshot-id", "scan.mode"]
)
def test_an_option_without_effect_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        check_given({key: "1"})
