"""Walks over chores: after each one every snapshot and tag has the rows of a model, for lakecore and for Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.chore_walk import ChoreWalk
from tests.support.oracle import Oracle


@pytest.mark.parametrize("seed", [3, 10, 21])
def test_no_chore_changes_a_row_that_it_should_not(
    seed: int, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    walk = ChoreWalk(seed, {"old": oracle, "new": oracle2}, tmp_path)
    walk.walk(20)
    assert sum(walk.done.values()) > 10
