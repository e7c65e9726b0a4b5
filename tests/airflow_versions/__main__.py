"""Runs the tests of operators and DAGs with each Airflow that lakecore allows beside the one of the checkout:
`make airflow-versions`, or `python -m tests.airflow_versions --only 3.1`.

Each version has an environment of its own in `.cache`, made from the locks beside this file, with the database of
Airflow, the scheduler, the triggerer and the API server of that version. Java Paimon reads what the DAGs compacted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from tests.airflow_versions.expected import ENVIRONMENTS, FOLDERS, LEFT_OUT
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.support.environments import ROOT, install_checkout, locked_environment


def run(name: str) -> dict[str, Any]:
    """Run the tests with that Airflow and return the counts of their outcomes, and the names of those that failed."""
    python = locked_environment(f"airflow-{name}", Path(__file__).with_name(f"{name}.lock"))
    install_checkout(python)
    began = time.monotonic()
    left_out = [f"--ignore={path}" for path, _ in LEFT_OUT if "::" not in path]
    left_out += [f"--deselect={path}" for path, _ in LEFT_OUT if "::" in path]
    left_out += ["--deselect=" + path for path, _ in ENVIRONMENTS[name]]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # Airflow 3.1 and providers of today warn about each other
        command = [
            "-m",
            "pytest",
            "-q",
            "-W",
            "default",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            f"--basetemp={folder}/tests",
        ]
        subprocess.run(
            [str(python), *command, *FOLDERS, *left_out],
            check=False,
            cwd=ROOT,
            stdout=sys.stderr,
        )
        outcomes = _outcomes(report)
    airflow = "import airflow, sqlalchemy; print(airflow.__version__, sqlalchemy.__version__)"
    said = subprocess.run(
        [str(python), "-c", airflow], check=True, capture_output=True, text=True
    ).stdout.split()
    versions = {"airflow": said[-2], "sqlalchemy": said[-1]}
    return {**versions, "seconds": round(time.monotonic() - began), **outcomes}


def _outcomes(report: Path) -> dict[str, Any]:
    """Return how many tests passed and were skipped, and the names of those that did neither."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    kinds = [{part.tag for part in case} for case in cases]
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case, kind in zip(cases, kinds, strict=True)
        if kind & {"failure", "error"}
    ]
    skipped = sum("skipped" in kind for kind in kinds)
    return {"passed": len(cases) - len(failed) - skipped, "skipped": skipped, "failed": failed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=ENVIRONMENTS, nargs="*", default=list(ENVIRONMENTS))
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions()
    figures: dict[str, Any] = {}
    for name in arguments.only:
        figures[name] = run(name)
        print(write_figures(f"airflow_{name}", measured, figures[name], arguments.folder), flush=True)
    sys.exit(any(one["failed"] for one in figures.values()))


if __name__ == "__main__":
    main()
