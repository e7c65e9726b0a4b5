"""Offsets of zones: what Java 17's TimeZone said."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from lakecore.errors import UnsupportedError
from lakecore.format.orc.java_zones import base_seconds, is_named, offsets

JAVA = [
    (
        "Asia/Shanghai",
        {"1600-01-01": 28_800, "1900-06-01": 29_143, "1988-07-01": 32_400, "9999-01-01": 28_800},
    ),
    ("CTT", {"1600-01-01": 28_800, "1988-07-01": 32_400}),
    ("America/New_York", {"0001-06-01": -18_000, "2300-07-01": -14_400, "2300-01-01": -18_000}),
    ("GMT-03:30", {"1500-01-01": -12_600, "2500-01-01": -12_600}),
    ("", {"1500-01-01": 0}),
]


@pytest.mark.parametrize(("zone", "known"), JAVA)
def test_offsets_are_those_of_java(zone: str, known: dict[str, int]) -> None:
    days = [datetime.fromisoformat(day).replace(tzinfo=UTC) for day in known]
    seconds = np.array([int((day - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) for day in days])
    assert offsets(zone, seconds).tolist() == list(known.values())
    assert is_named(zone) == (zone not in ("CTT", "GMT-03:30"))


def test_the_base_is_midnight_of_2015_there() -> None:
    assert base_seconds("Asia/Shanghai") == 1_420_070_400 - 28_800
    with pytest.raises(UnsupportedError, match="'Mars/Base'"):
        base_seconds("Mars/Base")
