"""Walks over schemas: Java opens every table that lakecore creates, after each change that lakecore makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.schema_walk import SchemaWalk
from tests.support.oracle import Oracle


@pytest.mark.parametrize("seed", [3, 8, 9, 13, 22])
def test_java_opens_what_lakecore_creates_and_alters(
    seed: int, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Before its rules were those of Paimon 2.0, lakecore made a schema with each of these seeds that Java did not open."""
    walk = SchemaWalk(seed, {"old": oracle, "new": oracle2}, tmp_path)
    walk.walk(15)
    assert walk.made == 1
    assert walk.changed > 0
