"""The extras of pyproject.toml install all that they need: PySpark says by its own extra what DataFrames of Arrow require."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9_.-]", one, maxsplit=1)[0].lower() for one in requirements}


def test_the_extra_spark_has_what_pyspark_requires_for_arrow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = _names(project["dependencies"]) | _names(project["optional-dependencies"]["spark"])
    of_sql = [one for one in requires("pyspark") or [] if 'extra == "sql"' in one]
    assert {"pandas", "pyarrow"} <= _names(of_sql) <= declared
