"""Spark reads tables whose files were copied: `python -m tests.spark_versions.copied [JAR] < TABLES.json`.

It runs with the Python of the environment `3.5`, without lakecore. Each table has its path, its files and the rows that it must
have. Spark's two readers of Parquet read the files, and Paimon's connector reads the table, each with every one of `CONDITIONS`;
Spark filters the rows themselves, too. It prints with how many conditions each of them read what it must, and what differs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CONDITIONS", "READERS", "read_copies"]

CONDITIONS = (
    "true", "id = 0", "id = 1999", "id = 2015", "id = 3999", "id = 4000", "id < 150", "id >= 3900",
    "id between 1990 and 2040", "id in (5, 2020, 3500)", "s = 'text 07'", "s = 'late text 15'", "s like 'late%'",
    "s is null", "s > 'text 4'", "n = 201", "n is null", "n > 390", "x = 502.5", "x < 10", "d = 500.05", "d > 990",
    "day = date'2026-06-15'", "day < date'2026-01-10'", "s is not null and n is null and x > 900",
)  # fmt: skip
READERS = ("spark", "spark, row by row", "connector")
_SCHEMA = "id bigint, s string, n int, x double, d decimal(12, 2), day date"


def read_copies(
    session: SparkSession, tables: Mapping[str, Mapping[str, Any]], readers: Sequence[str] = READERS
) -> dict[str, Any]:
    """Read every table with every condition. `counts`: how many conditions agree, by table and reader."""
    problems: list[str] = []
    counts: dict[str, dict[str, int]] = {}
    for name, table in tables.items():
        lines = session.sparkContext.parallelize([json.dumps(row) for row in table["rows"]], 1)
        expected = session.read.schema(_SCHEMA).json(lines)
        wanted = _rows(expected)
        assert len(wanted[0]) == len(table["rows"])
        counts[name] = dict.fromkeys(readers, 0)
        for reader in readers:
            for condition, rows, due in zip(
                CONDITIONS, _rows(_OPEN[reader](session, table)), wanted, strict=True
            ):
                counts[name][reader] += rows == due
                if rows != due:
                    problems.append(
                        f"{reader} reads {len(rows)} rows of {name} where {condition}, not {len(due)}"
                    )
    return {"counts": counts, "problems": problems}


def _rows(frame: DataFrame) -> list[Counter[tuple[Any, ...]]]:
    """The rows under each condition. One job has a scan for each of them."""
    names = [part.split()[0] for part in _SCHEMA.replace("(12, 2)", "").split(", ")]
    scans = [
        frame.where(condition).selectExpr(f"{number} AS scan", *names)
        for number, condition in enumerate(CONDITIONS)
    ]
    found: list[Counter[tuple[Any, ...]]] = [Counter() for _ in CONDITIONS]
    for number, *row in reduce(lambda left, right: left.unionAll(right), scans).collect():
        found[number][tuple(row)] += 1
    return found


def _of_files(vectorised: str) -> Callable[[SparkSession, Mapping[str, Any]], DataFrame]:
    def open_files(session: SparkSession, table: Mapping[str, Any]) -> DataFrame:
        session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
        return session.read.parquet(*table["files"])

    return open_files


_OPEN: Mapping[str, Callable[[SparkSession, Mapping[str, Any]], DataFrame]] = {
    "spark": _of_files("true"),
    "spark, row by row": _of_files("false"),
    "connector": lambda session, table: session.read.format("paimon").load(table["path"]),
}


def main(jar: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.jars", jar)
    builder = builder.config("spark.sql.codegen.wholeStage", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    found = read_copies(session, json.load(sys.stdin))
    session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
