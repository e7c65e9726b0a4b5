"""Benchmark: list the tables of a large catalog and open some of them, next to Java Paimon, on the same catalog.

    .venv/bin/python -m tests.bench.catalogs --tables 10000

The catalogs are a directory, SQLite, a Hive metastore (Derby in memory) and the REST server of Paimon's tests. Java and lakecore
take turns, each in one process: the list from process start, then warm lists, and tables that this process had not opened before,
each with its newest snapshot, and the same tables again. Java has its cache of tables and snapshots, which it has by default.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.names import TableName
from lakecore.catalog.registry import load_catalog
from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.processes import Contestant, Measured
from tests.bench.tables import CACHE, PAIMON, compile_java, java
from tests.support.hive_metastore import hive_server
from tests.support.rest_server import TOKEN, rest_server

SCHEMA = {
    "columns": ["k INT NOT NULL", "v STRING", "p STRING NOT NULL"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "1"},
}
ROW = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"], "p": ["b"]})
WARM_UP = 2
"""Turns that are not counted: Java's code becomes fast with use. The first of them opens tables only."""
OPENED = 100
"""The tables that a turn opens."""
HIVE_JARS = Path(os.environ.get("ORACLE_HOME", "~/.cache/paimon-oracle")).expanduser() / "hive-3.1.3"


@dataclass(frozen=True)
class Large:
    """A catalog of many tables in database `d`: its options; the last `usable` of the tables have a snapshot."""

    options: Mapping[str, str]
    tables: int
    usable: int

    def names(self, turn: int) -> list[str]:
        """The tables that a turn opens, which no other turn opens."""
        start = self.tables - self.usable + turn * OPENED
        return [table(number) for number in range(start, start + OPENED)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3, help="warm turns that are counted")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of catalogs")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(json.loads(options.serve))
        return
    compile_java()
    measured = conditions([PAIMON])
    usable = (WARM_UP + options.runs) * OPENED
    figures: dict[str, Any] = {
        "tables": options.tables,
        "runs": options.runs,
        "opened": OPENED,
        "catalogs": {},
    }
    for kind in options.kinds.split(","):
        with KINDS[kind](options.tables, usable) as large:
            print(f"{kind}: {options.tables:,} tables exist", file=sys.stderr)
            figures["catalogs"][kind] = compare(large, options.runs)
        print(json.dumps({kind: figures["catalogs"][kind]}, indent=2), flush=True)
    write_figures("catalogs", measured, figures, options.figures)


def table(number: int) -> str:
    return f"t{number:05}"


def compare(large: Large, runs: int) -> dict[str, Any]:
    """Both sides in turns. Raises RuntimeError where they find other tables or snapshots."""
    pairs = [f"{key}={value}" for key, value in large.options.items()]
    ours = [sys.executable, "-m", "tests.bench.catalogs", "--serve", json.dumps(dict(large.options))]
    sides = {
        "java": Contestant("java", [*with_hive(java("CatalogPeer")), *pairs], CACHE / "catalogs-java.log"),
        "lakecore": Contestant("lakecore", ours, CACHE / "catalogs-lakecore.log"),
    }
    found: dict[str, dict[str, list[Measured]]] = {name: {} for name in sides}
    for name, side in sides.items():
        found[name]["cold"] = [side.first("list")]
    for turn in range(WARM_UP + runs):
        opening = f"open {' '.join(large.names(turn))}"
        steps = (("list", "list"), ("open", opening), ("again", opening))
        for step, task in steps if turn else steps[1:]:
            for name, side in sides.items():
                found[name].setdefault(step, []).append(side.ask(task))
    answers = {
        name: [[one.report["found"] for one in step] for step in own.values()] for name, own in found.items()
    }
    if answers["java"] != answers["lakecore"] or answers["java"][0] != [large.tables]:
        raise RuntimeError(f"the sides find other tables or snapshots: {answers}")
    result = {}
    for name, side in sides.items():
        own = found[name]
        result[name] = {
            "cold": {"seconds": round(own["cold"][0].seconds, 2), "cpu": round(own["cold"][0].cpu, 2)},
            "list": cost(own["list"][-runs:], 1),
            "open": cost(own["open"][-runs:], OPENED),
            "again": cost(own["again"][-runs:], OPENED),
            "peak_mb": round(sum(side.peaks().values()) / (1 << 20)),
        }
        side.close()
    return result


def cost(runs: Sequence[Measured], tables: int) -> dict[str, float]:
    """Medians in milliseconds, for each of so many tables."""
    return {
        "ms": round(1000 * median(one.report["seconds"] for one in runs) / tables, 3),
        "cpu_ms": round(1000 * median(one.cpu for one in runs) / tables, 3),
    }


def with_hive(command: list[str]) -> list[str]:
    """The command with the jars of Hive's client behind the others."""
    at = command.index("-cp") + 1
    return [*command[:at], f"{command[at]}:{HIVE_JARS}/*", *command[at + 1 :]]


def serve(options: dict[str, Any]) -> None:
    """Answer the tasks of standard input, as `CatalogPeer.java` does."""
    catalog = load_catalog(options.pop("warehouse"), **options)
    for line in sys.stdin:
        task, *names = line.split()
        started = time.perf_counter()
        if task == "list":
            found = len(catalog.list_tables("d"))
        else:
            snapshots = [catalog.load_table(f"d.{name}").latest_snapshot() for name in names]
            found = sum(one.id for one in snapshots if one is not None)
        print(json.dumps({"seconds": time.perf_counter() - started, "found": found}), flush=True)


@contextmanager
def directory(tables: int, usable: int) -> Iterator[Large]:
    """A filesystem catalog: the directory of one table with a snapshot, and copies of it."""
    with TemporaryDirectory(prefix="lakecore-catalogs-", dir=CACHE) as folder:
        copies(Path(folder), tables)
        yield Large({"warehouse": folder}, tables, usable)


@contextmanager
def sqlite(tables: int, usable: int) -> Iterator[Large]:
    """A JDBC catalog on a file of SQLite, which knows the same directories."""
    with TemporaryDirectory(prefix="lakecore-catalogs-", dir=CACHE) as folder:
        uri = f"jdbc:sqlite:{folder}/catalog.sqlite"
        options: dict[str, Any] = {"metastore": "jdbc", "uri": uri, "lock.enabled": "true"}
        catalog = load_catalog(folder, create_warehouse=True, **options)
        assert isinstance(catalog, JdbcCatalog)
        catalog.create_database("d")
        copies(Path(folder), tables)
        for number in range(tables):
            catalog._names.add_table(TableName("d", table(number)), {})
        catalog.close()
        yield Large({"warehouse": folder, **options}, tables, usable)


@contextmanager
def hive(tables: int, usable: int) -> Iterator[Large]:
    """A Hive metastore in a JVM of its own, which knows the same directories."""
    with hive_server(PAIMON) as server:
        server.oracle.call("version")
        catalog = load_catalog(server.warehouse, create_warehouse=False, **server.options)
        assert isinstance(catalog, HiveCatalog)
        catalog.create_database("d")
        copies(server.warehouse, tables)
        catalog.repair_table(f"d.{table(0)}")
        entry = catalog._metastore.table(TableName("d", table(0)))
        assert entry is not None
        place = entry.sd.location.removesuffix(table(0))
        for number in range(1, tables):
            entry.tableName, entry.sd.location = table(number), f"{place}{table(number)}"
            catalog._metastore.create_table(entry)
        catalog.close()
        yield Large({"warehouse": str(server.warehouse), **server.options}, tables, usable)


@contextmanager
def rest(tables: int, usable: int) -> Iterator[Large]:
    """The REST server of Paimon's tests, in a JVM of its own; tables are created through it."""
    with TemporaryDirectory(prefix="lakecore-catalogs-", dir=CACHE) as folder:
        uri = rest_server(PAIMON, folder)
        options: dict[str, Any] = {"metastore": "rest", "uri": uri, "token.provider": "bear", "token": TOKEN}
        catalog = load_catalog(Path(folder).name, **options)
        catalog.create_database("d")
        for number in range(tables):
            created = catalog.create_table(f"d.{table(number)}", SCHEMA)
            if number >= tables - usable:
                created.upsert(ROW)
        catalog.close()
        yield Large({"warehouse": Path(folder).name, **options}, tables, usable)


KINDS: Mapping[str, Callable[[int, int], Any]] = {
    "filesystem": directory,
    "sqlite": sqlite,
    "hive": hive,
    "rest": rest,
}


def copies(warehouse: Path, tables: int) -> None:
    """Tables `d.t00000`, …: one that lakecore wrote, whose files the others share."""
    first = load_catalog(warehouse).create_table(f"d.{table(0)}", SCHEMA)
    first.upsert(ROW)
    place = warehouse / "d.db"
    for number in range(1, tables):
        shutil.copytree(place / table(0), place / table(number), copy_function=os.link)


if __name__ == "__main__":
    main()
