"""Reports of servers: health and metrics that follow from them, and what is not a report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakecore.service.server_metrics import BOUNDS, ServerFigures
from lakecore.service.server_report import ServerReport, health_of_servers, metrics_of_servers
from lakecore.service.service_reports import ServiceReports, error_line
from tests.support.fake_clock import FakeClock

FIGURES = ServerFigures(
    requests=3, failures=1, keys=5, hits=4, seconds=0.5, latencies=(0, 2, *(0,) * (len(BOUNDS) - 2), 1)
)
REPORT = ServerReport(7, 1_000_000, None, 10, 20, FIGURES)


@pytest.mark.parametrize(
    ("reports", "state"),
    [
        ([REPORT, REPORT], "serving"),
        ([REPORT, None], "starting"),
        ([REPORT, replace(REPORT, refreshed_ms=1_000_000 - 59_000)], "serving"),
        ([REPORT, replace(REPORT, refreshed_ms=1_000_000 - 61_000)], "stale"),
        ([None, replace(REPORT, refreshed_ms=0)], "starting"),
        ([replace(REPORT, error="storage")], "serving"),
    ],
)
def test_the_state_of_a_service(reports: list[ServerReport | None], state: str) -> None:
    assert health_of_servers("d.t", reports, 1.0, 1_000_000)["state"] == state


def test_a_long_interval_makes_nobody_stale_in_a_minute() -> None:
    old = replace(REPORT, refreshed_ms=1_000_000 - 290_000)
    assert not old.is_stale(1_000_000, 100.0)
    assert old.is_stale(1_000_000, 90.0)


def test_health_has_a_line_for_each_server() -> None:
    failed = replace(REPORT, error="the disk is full")
    health = health_of_servers("d.t", [None, failed], 1.0, 1_002_500)
    assert health["servers"] == [
        None,
        {"snapshot": 7, "refreshed_seconds_ago": 2.5, "error": "the disk is full"},
    ]


def test_metrics_of_two_servers_are_read_by_prometheus() -> None:
    text = metrics_of_servers('d."t"', [REPORT, None, replace(REPORT, disk_bytes=11)], 1_000_000)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["lakecore_query_servers"].samples] == [2]
    disk = {one.labels["server"]: one.value for one in families["lakecore_query_local_disk_bytes"].samples}
    assert disk == {"0": 10, "2": 11}
    seconds = families["lakecore_query_request_seconds"].samples
    assert {one.labels["table"] for one in seconds} == {'d."t"'}
    infinite = [one.value for one in seconds if one.labels.get("le") == "+Inf"]
    assert infinite == [3, 3]
    assert text.count("# TYPE lakecore_query_requests_total") == 1


def line(**changes: object) -> str:
    raw = {"server": 1, "sent_ms": 5_000, "report": replace(REPORT, refreshed_ms=4_000).to_json()}
    return json.dumps({**raw, **changes})


def test_times_of_another_clock_become_times_of_the_driver() -> None:
    clock = FakeClock(1_000_000_000)
    reports = ServiceReports("d.t", 2, 1.0, clock)
    reports.take(line())
    reports.take(line(server=0))
    well, text = reports.health()
    assert well
    assert [one["refreshed_seconds_ago"] for one in json.loads(text)["servers"]] == [1.0, 1.0]
    reports.restart()
    assert json.loads(reports.health()[1])["state"] == "starting"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{}",
        '{"server": 1}',
        line(server=2),
        line(server=-1),
        line(server="x"),
        line(report={}),
        line(report={**REPORT.to_json(), "figures": {**REPORT.to_json()["figures"], "latencies": [1]}}),
        line(report={**REPORT.to_json(), "figures": {**REPORT.to_json()["figures"], "strange": 1}}),
        "\x00\xff",
    ],
)
def test_what_is_no_report_changes_nothing(text: str) -> None:
    reports = ServiceReports("d.t", 2, 1.0, FakeClock())
    before = reports.health()
    reports.take(text)
    assert reports.health() == before
    assert reports.first_error is None


def test_the_first_error_counts() -> None:
    reports = ServiceReports("d.t", 2, 1.0, FakeClock())
    reports.take(error_line(ValueError("the first\nof two lines")))
    reports.take(error_line(ValueError("the second")))
    assert reports.first_error == "ValueError: the first\nof two lines"
    reports.restart()
    assert reports.first_error is None
