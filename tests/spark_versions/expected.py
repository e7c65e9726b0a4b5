"""This module has what the pipeline must give with each PySpark, and what Java Paimon must read from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.spark_versions.pipeline import ROWS, STEPS

__all__ = ["ENVIRONMENTS", "PLANNED", "java_rows", "outcomes"]

ENVIRONMENTS = ("lowest", "3.5", "4.0", "4.1", "4.2")
"""`lowest` has the lowest release that `pyproject.toml` allows of every package; 4.2 is the project's own `.venv`."""
PLANNED: dict[str, tuple[int, int]] = {
    "register": (4, 0), "save": (4, 0), "loaded": (4, 0), "copy": (4, 0), "pushed": (4, 1), "sunk": (4, 1),
    "limited": (4, 2), "time": (4, 1), "variant": (4, 0),
}  # fmt: skip
"""These steps work from a version on; before, they are refused. All others work with every version."""
_AT = 1_795_550_400_123
_READ = [[k, k if k < ROWS // 4 else 1000 + k, _AT + 1000 * k] for k in range(12)]
_GIVEN: dict[str, Any] = {
    "write": [ROWS, 2],
    "compact": [None, "spark", 2, ROWS],
    "cancel": True,
    "read": _READ,
    "partitions": [1, 4, 7],
    "join": [[1, 1], [39, 1039], [77, None]],
    "files": [[10, 11, 12, 13, 14], 2],
    "register": True,
    "save": 10,
    "loaded": _READ,
    "pushed": 3,
    "copy": [[ROWS, 1], [ROWS + 2, 2], [ROWS + 2, 2]],
    "sunk": [10, 10],
    "limited": 10,
    "time": 2,
    "variant": 2,
}
_OF_SPARK = "DATA_SOURCE_NOT_FOUND"
"""Spark 3.5 does not look for formats in Python, and says that itself."""


def outcomes(found: Mapping[str, Any]) -> dict[str, str]:
    """`works` or `refused` for each step. Raises AssertionError for a step that did neither as it must."""
    text = found["pyspark"]
    version = tuple(map(int, text.split(".")[:2]))
    said = {}
    for step in STEPS:
        if version >= PLANNED.get(step, (0, 0)):
            assert found[step] == _GIVEN[step], f"{text} {step}: {found[step]}"
            said[step] = "works"
        else:
            words = f"PySpark {text} has no "
            assert words in found[step] or (version < (4, 0) and _OF_SPARK in found[step]), found[step]
            said[step] = "refused"
    return said


def java_rows(said: Mapping[str, str]) -> dict[str, int]:
    """The number of rows that Java must read from each table after these outcomes."""
    more = 2 if said["copy"] == "works" else 0
    return {
        "d.keyed": ROWS + more,
        "d.from_files": 5,
        "d.saved": 10 if said["save"] == "works" else 0,
        "d.copy": ROWS + more if more else 0,
        "d.sunk": 10 if said["sunk"] == "works" else 0,
    }
