"""The schedule of a cluster is worked out right, and the picture has a line for each curve."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.bench.scale import makespan, schedules
from tests.bench.scale_picture import picture


@pytest.mark.parametrize(
    ("units", "executors", "plan", "ends"),
    [
        ([3, 3, 3, 3], 1, 0, 12),
        ([3, 3, 3, 3], 2, 0, 6),
        ([3, 3, 3, 3], 8, 1, 7),  # the last one is planned after 4 s
        ([9, 1, 1, 1], 2, 0, 9),
        ([], 4, 1, 0),
    ],
)
def test_a_unit_begins_when_it_is_planned_and_an_executor_is_free(
    units: list[float], executors: int, plan: float, ends: float
) -> None:
    assert makespan(units, executors, plan) == ends


def test_a_plan_is_no_part_of_the_unit() -> None:
    first = schedules({"cpu": 30.0, "size": 10}, {"cpu": 10.0, "size": 10})[0]
    assert first == {"tables": 100, "executors": 1, "plan_seconds": 1, "unit_seconds": 2, "seconds": 201}


def test_the_picture_has_a_line_for_each_curve_in_both_panels() -> None:
    points = [{"size": size, "cpu": size / 1000, "peak_bytes": 10**8} for size in (10, 1000)]
    root = ElementTree.fromstring(picture({"plan": points, "orphans": points[:1], "expire": []}))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 6
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 1, 0] * 2
