"""The figures of docs/architecture.md ("The house in figures") hold. They may only become better: then lower the limit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support import house

LIMITS = {
    "folders with more than 20 modules": 0,
    "largest folder": 20,
    "import pairs inside compact": 220,
    "modules that a unit of a primary-key merge passes through": 86,
}


@pytest.fixture(scope="module")
def figures() -> Mapping[str, int]:
    return house.figures()


@pytest.mark.parametrize("name", LIMITS)
def test_the_figure_is_within_its_limit(figures: Mapping[str, int], name: str) -> None:
    assert figures[name] <= LIMITS[name]


def test_modules_are_counted(figures: Mapping[str, int]) -> None:
    assert figures["modules"] > 700
    assert figures["packages of these"] > 8
