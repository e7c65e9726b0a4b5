"""Runs one pipeline with each PySpark that lakecore allows: `make spark-versions`, or
`python -m tests.spark_versions --only 3.5`.

Each version has an environment of its own in `.cache`, made from the locks beside this file. Java Paimon reads the
tables that the pipeline wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.spark_versions.expected import ENVIRONMENTS, java_rows, outcomes
from tests.support.environments import ROOT, locked_environment
from tests.support.oracle import Oracle, findings

JAVA = "1.4.2"


def environment(name: str) -> Path:
    """The Python with that PySpark; its packages are those of the lock."""
    lock = Path(__file__).with_name(f"{name}.lock")
    return locked_environment(f"spark-{name}", lock) if lock.exists() else Path(sys.executable)


def run(name: str, oracle: Oracle) -> dict[str, Any]:
    """Run the pipeline and judge it. Raises AssertionError."""
    python = environment(name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        found = _pipeline(python, lake)
        said = outcomes(found)
        for table, count in java_rows(said).items():
            assert len(oracle.read(lake, table)) == count, f"{name} {table}"
            assert findings(oracle.fsck(lake, table)) == set(), f"{name} {table}"
    return {"pyspark": found["pyspark"], "seconds": round(time.monotonic() - began), **said}


def _pipeline(python: Path, lake: Path) -> dict[str, Any]:
    out = _output(python, ["-m", "tests.spark_versions.pipeline", str(lake)], lake.parent)
    command = "from lakecore.cli.main import main; main()"
    assert "keyed" in _output(python, ["-c", command, "--warehouse", str(lake), "tables"], lake.parent)
    return dict(json.loads(out.splitlines()[-1]))


def _output(python: Path, arguments: list[str], folder: Path) -> str:
    settings = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(python), *arguments]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=ENVIRONMENTS, nargs="*", default=list(ENVIRONMENTS))
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions((JAVA,))
    figures: dict[str, object] = {}
    with Oracle(JAVA) as oracle:
        for name in arguments.only:
            figures[name] = run(name, oracle)
            print(f"{name}: {json.dumps(figures[name])}", flush=True)
    if arguments.only == list(ENVIRONMENTS):
        print(write_figures("spark_versions", measured, figures, arguments.folder))


if __name__ == "__main__":
    main()
