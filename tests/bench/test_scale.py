"""The schedule of a cluster is worked out right, and the picture has a line for each curve."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.bench.scale_picture import picture
from tests.bench.scale_schedule import makespan, of_tables, one_driver


@pytest.mark.parametrize(
    ("units", "executors", "ends"),
    [([3, 3, 3, 3], 1, 12), ([3, 3, 3, 3], 2, 6), ([9, 1, 1, 1], 2, 9), ([], 4, 0)],
)
def test_the_executor_that_is_free_first_takes_the_next_unit(
    units: list[float], executors: int, ends: float
) -> None:
    assert makespan(units, executors) == ends


@pytest.mark.parametrize(
    ("tables", "executors", "plan", "unit", "rest", "ends"),
    [
        (4, 1, 0, 3, 0, 12),
        (4, 8, 1, 3, 0, 7),  # the last one is planned after 4 s
        (3, 8, 1, 0, 1, 6),  # the driver does all of the work
        (2, 2, 1, 5, 1, 8),  # the second unit ends at 7
        (2, 2, 3, 1, 1, 8),  # the rest of the first table waits for the plan of the second
        (0, 4, 1, 1, 1, 0),
    ],
)
def test_a_driver_plans_and_commits_one_table_at_a_time(
    tables: int, executors: int, plan: float, unit: float, rest: float, ends: float
) -> None:
    assert one_driver(tables, executors, plan, unit, rest) == ends


def test_schedules_have_both_ways() -> None:
    first = of_tables({"plan": 1.0, "unit": 2.0, "rest": 3.0})[0]
    assert first == {"tables": 100, "executors": 1, "one_driver": 402.0, "a_task_for_each": 600.0}


def test_the_picture_has_a_line_for_each_curve_in_both_panels() -> None:
    points = [{"size": size, "cpu": size / 1000, "peak_bytes": 10**8} for size in (10, 1000)]
    root = ElementTree.fromstring(picture({"plan": points, "orphans": points[:1], "expire": []}))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 6
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 1, 0] * 2
