"""Walks over branches and tags: each has the rows of a model after every step, for lakecore and for Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.branch_walk import Walk
from tests.support.oracle import Oracle


@pytest.mark.parametrize("seed", [206, 211, 300])
def test_no_branch_or_tag_loses_a_row(seed: int, tmp_path: Path, oracle: Oracle, oracle2: Oracle) -> None:
    """The first two have branches and tags whose changelogs expired before they were made."""
    Walk(seed, {"old": oracle, "new": oracle2}, tmp_path).walk(20)
