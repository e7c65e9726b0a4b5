"""Benchmark: how time and memory grow with files and tables: plans, commits, expiry, orphans, whole databases.

    .venv/bin/python -m tests.bench.scale [--files 1000,10000,100000,1000000,10000000] [--tables 10,100,1000,10000]
        [--only plan,commit] [--figures DIRECTORY]

The manifests of plans, commits and orphans are those that Java Paimon wrote (`plan_java.py`); the live files that the search for
orphans lists are names of a few empty files. Histories are by lakecore's own encoders (`maintain_tables.py`); tables of a database
are copies of one of six small files. Each measurement runs in a process of its own; its seconds and CPU seconds begin after
the imports. Expiry stops at `--most-expired` files and the search for orphans at `--most-listed`, because such tables take long to make. The
schedule of a cluster is worked out from measured CPU seconds, not measured. `--only` measures these curves and takes the
others from the figures that are there; each curve has its commit. The picture is `scale.svg`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.scale_cases import CASES, SHARED, measure
from tests.bench.scale_picture import picture
from tests.bench.scale_schedule import of_groups, of_tables
from tests.bench.tables import CACHE, PAIMON

_OF_TABLES = ("compact_database_dry_run", "compact_database")
_ROOT = CACHE / "scale"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", default="1000,10000,100000,1000000,10000000", help="live files of a table")
    parser.add_argument("--tables", default="10,100,1000,10000", help="tables of a database")
    parser.add_argument("--most-expired", type=int, default=1_000_000, help="files of the longest history")
    parser.add_argument("--most-listed", type=int, default=1_000_000, help="files of the largest search")
    parser.add_argument("--only", default=",".join(CASES), help="curves to measure")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        name, path = options.measure
        print(json.dumps(measure(CASES[name], path)))
        return
    measured = conditions([PAIMON])
    wanted = options.only.split(",")
    most = {"expire": options.most_expired, "orphans": options.most_listed}
    run = _Run(options.figures, measured, wanted)
    for files in map(int, options.files.split(",")):
        for case in wanted:
            if case not in (*_OF_TABLES, "shares") and files <= most.get(case, files):
                run.of_files(case, files)
    for tables in map(int, options.tables.split(",")):
        run.of_tables([case for case in _OF_TABLES if case in wanted], tables)
    if "shares" in wanted:
        run.of_tables(["shares"], SHARED)


class _Run:
    """The curves of this run and of the ones before; the figures are written after each point."""

    def __init__(self, folder: Path, measured: dict[str, Any], wanted: Sequence[str]) -> None:
        self._folder, self._measured = folder, measured
        path = folder / "scale.json"
        known = json.loads(path.read_text())["figures"]["curves"] if path.exists() else {}
        self._curves = {name: [] if name in wanted else known.get(name, []) for name in CASES}

    def of_files(self, case: str, files: int) -> None:
        """Make the table and measure one case of it."""
        from tests.bench.maintain_tables import make_history

        if case == "expire":
            self._add(case, files, f"{make_history(_ROOT / f'history-{files}', files)}:history")
            shutil.rmtree(_ROOT / f"history-{files}")
            return
        with_files = case == "orphans"
        warehouse = _of_java(files, listed=with_files)
        self._add(case, files, f"{warehouse}:planned")
        shutil.rmtree(warehouse)

    def of_tables(self, cases: Sequence[str], tables: int) -> None:
        """Make a database and measure cases of it, one after the other."""
        if not cases:
            return
        warehouse = _ROOT / "tables" / str(tables)
        shutil.rmtree(warehouse, ignore_errors=True)
        warehouse.mkdir(parents=True)
        _small_table(warehouse)
        first = warehouse / "db.db" / "t00000"
        for number in range(1, tables):
            shutil.copytree(first, first.with_name(f"t{number:05d}"), copy_function=_copy)
        for case in cases:
            self._add(case, tables, f"{warehouse}:")
        shutil.rmtree(warehouse)

    def _add(self, case: str, size: int, path: str) -> None:
        command = [sys.executable, "-m", "tests.bench.scale", "--measure", case, path]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        point = {
            "size": size,
            **json.loads(done.stdout),
            "load_after": round(os.getloadavg()[0], 1),
            "commit": self._measured["commit"],
        }
        self._curves[case].append(point)
        print(case, point, file=sys.stderr, flush=True)
        figures = {"curves": self._curves, "schedule": _schedule(self._curves)}
        self._folder.mkdir(parents=True, exist_ok=True)
        drawn = {name: points for name, points in self._curves.items() if name != "shares"}
        if any(drawn.values()):
            (self._folder / "scale.svg").write_text(picture(drawn))
        write_figures("scale", self._measured, figures, self._folder)


def _schedule(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The schedules that the curves allow."""
    out: dict[str, Any] = {}
    shares = next(iter(curves["shares"]), None)
    dry = next((point for point in curves["compact_database_dry_run"] if point["size"] == SHARED), None)
    if shares and dry:
        plan = dry["cpu"] / SHARED
        took = {
            "plan": round(plan, 4),
            "unit": round(shares["units"] / SHARED, 4),
            "rest": round((shares["cpu"] - shares["units"]) / SHARED - plan, 4),
        }
        out["tables"] = {"seconds_of_a_table": took, "schedules": of_tables(took)}
    groups = [point for point in curves["plan"] if len(point["cpu_of_plans"]) > 1]
    if groups:
        out["plans"] = {"files": groups[-1]["size"], "schedules": of_groups(groups[-1]["cpu_of_plans"])}
    return out


def _of_java(files: int, *, listed: bool) -> Path:
    """A warehouse with a copy of the table that Java wrote, whose manifests are hard links; `listed`: with all of its
    files, and one in a hundred that is an orphan.
    """
    from tests.bench.maintain_tables import touch_files_of
    from tests.bench.plan_java import made

    source, table = made(files)
    warehouse = _ROOT / f"java-{files}"
    shutil.rmtree(warehouse, ignore_errors=True)
    target = warehouse / "db.db" / "planned"
    shutil.copytree(source / "db.db" / table, target, copy_function=_copy)
    if listed:
        touch_files_of(warehouse, "db.planned")
    return warehouse


def _copy(source: str, target: str) -> None:
    """Files that nobody writes over are hard links."""
    if Path(source).name.startswith(("manifest-", "data-")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _small_table(warehouse: Path) -> None:
    """A table of six runs in one bucket, below 1 MB."""
    import pyarrow as pa

    from lakecore import load_catalog

    lake = load_catalog(str(warehouse), create_warehouse=False, **{"local.fsync": "false"})
    lake.create_database("db")
    options = {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms"}
    lake.create_table(
        "db.t00000", {"columns": ["k BIGINT NOT NULL", "s STRING"], "primaryKeys": ["k"], "options": options}
    )
    for first in range(6):
        keys = range(first, 6000, 2)
        rows = pa.table({"k": pa.array(keys, pa.int64()), "s": [f"text {key % 97}" for key in keys]})
        lake.load_table("db.t00000").upsert(rows)


if __name__ == "__main__":
    main()
