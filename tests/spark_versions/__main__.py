"""Runs one pipeline with each PySpark that lakecore allows: `make spark-versions`, or
`python -m tests.spark_versions --only 3.5`.

Each version has an environment of its own in `.cache`, made from the locks beside this file. Java Paimon reads the
tables that the pipeline wrote. With PySpark 3.5 Paimon's own connector goes on with one of them, and then lakecore again; it and
Spark's own readers read tables of which files were copied (`--copies` does that alone).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakecore
from lakecore.jobs import compact
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.spark_io import PYSPARK, connector
from tests.spark_versions.copied import CONDITIONS
from tests.spark_versions.expected import ENVIRONMENTS, java_rows, outcomes
from tests.support.copied_tables import COPIES, copied_table
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
        if name == PYSPARK:
            _go_on_in_turns(python, lake, oracle)
    return {"pyspark": found["pyspark"], "seconds": round(time.monotonic() - began), **said}


def _go_on_in_turns(python: Path, lake: Path, oracle: Oracle) -> None:
    """The connector adds rows to a table of lakecore, lakecore compacts it and adds more, and the connector again."""
    catalog, path = lakecore.load_catalog(lake), str(lake / "d.db/keyed")
    for first in (30, 45):
        command = ["-m", "tests.spark_versions.connector", str(connector()), path, str(first)]
        theirs = json.loads(_output(python, command, lake.parent).splitlines()[-1])
        assert theirs == _rows(catalog) == _rows_of_java(oracle, lake)
        assert [10_000 + k for k in range(first, first + 20)] == [
            v for k, v in theirs if first <= k < first + 20
        ]
        job = compact.Job(
            table="d.keyed", strategy=compact.Strategy.FULL, commit_user="turns", commit_identifier=first
        )
        assert compact.run(job, catalog).error is None
        more = {
            "k": pa.array([first], pa.int32()),
            "v": [first],
            "at": pa.array([0], pa.timestamp("ms", "UTC")),
        }
        catalog.load_table("d.keyed").write(pa.table(more))
        assert _rows(catalog) == _rows_of_java(oracle, lake)
        assert findings(oracle.fsck(lake, "d.keyed")) == set()


def read_copies(oracle: Oracle) -> dict[str, Any]:
    """Make a table of each kind of copies, and have Spark 3.5 and Paimon's connector read them with filters.
    Raises AssertionError.
    """
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        catalog = lakecore.load_catalog(lake, create_warehouse=True, **{"local.fsync": "false"})
        catalog.create_database("d")
        tables = {kind: asdict(copied_table(kind, catalog, oracle)) for kind in COPIES}
        for kind in COPIES:
            assert findings(oracle.fsck(lake, f"d.{kind}")) == set(), kind
        command = ["-m", "tests.spark_versions.copied", str(connector())]
        found = json.loads(
            _output(environment(PYSPARK), command, lake.parent, json.dumps(tables)).splitlines()[-1]
        )
    assert found["problems"] == []
    return {"conditions": len(CONDITIONS), "tables": found["counts"]}


def _rows(catalog: lakecore.FilesystemCatalog) -> list[list[int]]:
    scan = catalog.load_table("d.keyed").scan(columns=["k", "v"])
    return sorted([row["k"], row["v"]] for row in scan.to_arrow().to_pylist())


def _rows_of_java(oracle: Oracle, lake: Path) -> list[list[int]]:
    rows = map(json.loads, oracle.read(lake, "d.keyed"))
    return sorted([row["k"], row["v"]] for row in rows)


def _pipeline(python: Path, lake: Path) -> dict[str, Any]:
    out = _output(python, ["-m", "tests.spark_versions.pipeline", str(lake)], lake.parent)
    command = "from lakecore.cli.main import main; main()"
    assert "keyed" in _output(python, ["-c", command, "--warehouse", str(lake), "tables"], lake.parent)
    return dict(json.loads(out.splitlines()[-1]))


def _output(python: Path, arguments: list[str], folder: Path, given: str = "") -> str:
    settings = {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(python), *arguments]
    done = subprocess.run(
        command, env=settings, input=given, capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=ENVIRONMENTS, nargs="*", default=list(ENVIRONMENTS))
    parser.add_argument("--copies", action="store_true", help="only read copied files, with PySpark 3.5")
    parser.add_argument("--folder", type=Path, default=FIGURES, help="where the figures go")
    arguments = parser.parse_args()
    measured = conditions((JAVA,))
    figures: dict[str, object] = {}
    with Oracle(JAVA) as oracle:
        if arguments.copies or PYSPARK in arguments.only:
            print(write_figures("spark_copies", measured, read_copies(oracle), arguments.folder))
        for name in () if arguments.copies else arguments.only:
            figures[name] = run(name, oracle)
            print(f"{name}: {json.dumps(figures[name])}", flush=True)
    if figures and arguments.only == list(ENVIRONMENTS):
        print(write_figures("spark_versions", measured, figures, arguments.folder))


if __name__ == "__main__":
    main()
