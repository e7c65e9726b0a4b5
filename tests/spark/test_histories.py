"""Histories of the differential fuzzer whose writes and reads by lakecore go through Spark; Java judges each step."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.failures import TwinBrokenError
from tests.fuzz.generate import generate
from tests.fuzz.history import History
from tests.fuzz.play import play
from tests.fuzz.through_spark import ThroughSpark
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

SEEDS = (53, 59, 70)
STEPS = 4
NULL_VECTORS = Path(__file__).parents[1] / "fuzz/histories/null_vectors.json"
"""The Python workers of Spark crashed when they wrote it."""


def test_histories_are_written_and_read_through_spark(
    session: SparkSession, oracles: dict[str, Oracle]
) -> None:
    way = ThroughSpark(session)
    for history in (*map(generate, SEEDS), History.from_json(NULL_VECTORS.read_text())):
        with suppress(TwinBrokenError):
            play(replace(history, steps=history.steps[:STEPS]), oracles, way)
    assert way.done.keys() == {"spark.write", "save", "to_spark", "spark.read"}
