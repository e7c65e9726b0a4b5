"""Options that say where a read starts."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidInputError, InvalidOptionError
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.scan.startup import Incremental, IncrementalMode, IncrementalUnit, Startup, StartupMode


def options(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(";") if part)


@pytest.mark.parametrize(
    ("text", "mode", "values"),
    [
        ("", StartupMode.LATEST_FULL, {}),
        ("scan.mode=FULL", StartupMode.LATEST_FULL, {}),
        ("scan.mode=latest", StartupMode.LATEST, {}),
        ("scan.snapshot-id=3", StartupMode.FROM_SNAPSHOT, {"snapshot": 3}),
        ("scan.mode=from-snapshot-full;scan.snapshot-id=3", StartupMode.FROM_SNAPSHOT_FULL, {"snapshot": 3}),
        ("scan.tag-name=a", StartupMode.FROM_SNAPSHOT, {"tag": "a"}),
        ("scan.version=watermark-5", StartupMode.FROM_SNAPSHOT, {"version": "watermark-5"}),
        ("scan.watermark=5", StartupMode.FROM_SNAPSHOT, {"watermark": 5}),
        ("scan.timestamp-millis=5", StartupMode.FROM_TIMESTAMP, {"timestamp_ms": 5}),
        ("scan.timestamp=1970-01-01 00:00:01.5", StartupMode.FROM_TIMESTAMP, {"timestamp_ms": 1500}),
        ("scan.file-creation-time-millis=5", StartupMode.FROM_FILE_CREATION_TIME, {"created_ms": 5}),
        ("scan.creation-time-millis=0", StartupMode.FROM_CREATION_TIMESTAMP, {"created_ms": 0}),
        (
            "incremental-between=3, 7;incremental-between-scan-mode=diff",
            StartupMode.INCREMENTAL,
            {"incremental": Incremental(start="3", end="7", mode=IncrementalMode.DIFF)},
        ),
        (
            "incremental-between-timestamp=1970-01-01 00:00:01,2000",
            StartupMode.INCREMENTAL,
            {"incremental": Incremental(start="1000", end="2000", unit=IncrementalUnit.MILLIS)},
        ),
        (
            "incremental-to-auto-tag=2026-01-01",
            StartupMode.INCREMENTAL,
            {"incremental": Incremental(start="", end="2026-01-01", unit=IncrementalUnit.AUTO_TAG)},
        ),
    ],
)
def test_starts(text: str, mode: StartupMode, values: dict[str, object]) -> None:
    assert Startup.from_options(options(text)) == Startup(mode=mode, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scan.mode=newest", r"scan.mode='newest'.*latest-full"),
        ("scan.mode=latest;scan.snapshot-id=3", r"scan.snapshot-id='3': scan.mode latest takes no"),
        ("scan.snapshot-id=3;scan.tag-name=a", r"exactly one of .*snapshot-id='3' and scan.tag-name='a'"),
        ("scan.mode=from-timestamp", r"exactly one of scan.timestamp-millis.*the options have none"),
        ("scan.timestamp-millis=3;scan.snapshot-id=4", r"scan.mode"),
        ("scan.snapshot-id=x", r"scan.snapshot-id='x': it is not a whole number"),
        ("scan.timestamp=noon", r"scan.timestamp='noon'"),
        ("incremental-between=3", r"incremental-between='3': write START,END"),
        ("incremental-between-timestamp=3,noon", r"'noon': this is not a timestamp"),
        ("incremental-between-scan-mode=all;incremental-between=1,2", r"must be one of auto, delta"),
    ],
)
def test_options_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        Startup.from_options(options(text))


def test_intervals_in_text() -> None:
    assert Incremental.parse(" 5 .. 9 ", "DELTA") == Incremental(
        start="5", end="9", mode=IncrementalMode.DELTA
    )
    for text, mode in (("5", "auto"), ("..9", "auto"), ("5..9", "all")):
        with pytest.raises(InvalidInputError, match="incremental"):
            Incremental.parse(text, mode)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("", "2026-01-31", "20260131"),
        ("tag.period-formatter=without_dashes", "20260131", "2026-01-31"),
        ("tag.creation-period=hourly", "2026-01-31 09", "2026-01-31"),
        ("tag.creation-period=hourly;tag.period-formatter=without_dashes", "20260131 09", "2026013109"),
        ("tag.creation-period=hourly;tag.period-formatter=without_dashes_and_spaces", "2026013109", "x"),
        ("tag.creation-period=two-hours;tag.period-formatter=without_dashes", "2026-01-31 09", "20260131 09"),
        ("tag.creation-period-duration=5 min", "202601310930", "202613310930"),
    ],
)
def test_names_of_automatic_tags(text: str, yes: str, no: str) -> None:
    names = AutoTagNames.from_options(options(text))
    assert names.time_of(names.example) is not None
    assert names.time_of(yes) is not None
    assert names.time_of(no) is None
