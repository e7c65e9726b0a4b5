"""The commands and programs of the README, in its order: a new user can copy each of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.oracle import Oracle

ROOT = Path(__file__).parents[2]
LAKE = "/tmp/lake"


def blocks(title: str) -> list[str]:
    """Return the code blocks of a section."""
    section = (ROOT / "README.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of the README after its first commands."""
    folder = tmp_path_factory.mktemp("readme")
    commands = blocks("A first table")[0].replace(LAKE, f"{folder}/lake")
    assert commands.startswith(". .venv/bin/activate\n")
    script = "set -e\n" + commands.partition("\n")[2]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "said.txt").write_text(done.stdout)
    return folder / "lake"


def run(code: str, lake: Path) -> str:
    """Run a program of the README on that warehouse; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace(LAKE, str(lake)), "README.md", "exec"), {})
    return printed.getvalue()


def test_the_first_table(lake: Path, oracle: Oracle) -> None:
    said = (lake.parent / "said.txt").read_text()
    assert "day 6" in said, "the last row of key 1 is read"
    assert [json.loads(row)["id"] for row in oracle.read(lake, "shop.orders")] == [1, 2, 3, 4, 5, 6]
    printed = run(blocks("A first table")[1], lake)
    assert "day 6" in printed
    assert "<Report shop.orders: " in printed


def test_the_first_pipeline(lake: Path, session: SparkSession, oracle: Oracle) -> None:
    (pipeline,) = (block for block in blocks("Spark") if "readStream" in block)
    run(pipeline, lake)
    orders = oracle.read(lake, "shop.orders")
    assert oracle.read(lake, "shop.copy") == orders
    states = [json.loads(row) for row in oracle.read(lake, "shop.states")]
    assert {row["state"]: row["orders"] for row in states} == {"paid": 5, "day 6": 1}
