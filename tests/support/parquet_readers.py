"""Readers of parquet files that are neither ours nor Java Paimon's: what each reads of some files, with a condition in SQL."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ReadFiles", "conditions_of", "local_readers", "rows_of_readers", "spark_readers"]

ReadFiles = Callable[[Sequence[Path], Sequence[str]], list[pa.Table | None]]
"""Return what a reader reads of files under each of some conditions; None where it does not read them."""
_ROWS = 3
ReadOnce = Callable[[Sequence[Path], str], pa.Table]


def local_readers() -> dict[str, ReadFiles]:
    """Those that read in this process. DataFusion is the only one of them that skips pages."""
    readers: dict[str, ReadOnce] = {
        "pyarrow": _by_pyarrow,
        "duckdb": _by_duckdb,
        "polars": _by_polars,
        "arrow-rs": _by_arrow_rs,
        "datafusion": _by_datafusion,
    }
    return {name: _one_by_one(read) for name, read in readers.items()}


def _one_by_one(read: ReadOnce) -> ReadFiles:
    def read_or_none(paths: Sequence[Path], condition: str) -> pa.Table | None:
        try:
            return read(paths, condition)
        except Exception:  # noqa: BLE001 - each has errors of its own, also for types that it does not have
            return None

    return lambda paths, conditions: [read_or_none(paths, one) for one in conditions]


def spark_readers(session: SparkSession) -> dict[str, ReadFiles]:
    """Spark's own vectorised reader, and its reader of single rows, which is the one of parquet-mr."""

    def reader(vectorised: str) -> ReadFiles:
        def read(paths: Sequence[Path], conditions: Sequence[str]) -> list[pa.Table | None]:
            session.conf.set("spark.sql.parquet.enableVectorizedReader", vectorised)
            session.conf.set("spark.sql.codegen.wholeStage", "false")  # each condition would be compiled
            session.conf.set("spark.sql.files.minPartitionNum", "1")  # one task for each condition
            session.conf.set("spark.sql.files.openCostInBytes", "0")
            session.conf.set("spark.sql.parquet.enableNestedColumnVectorizedReader", vectorised)
            try:
                return list(_by_spark(session, paths, conditions))
            except Exception:  # noqa: BLE001 - errors of Python, of Py4J and of the JVM
                return [None] * len(conditions)

        return read

    return {"spark": reader("true"), "spark, row by row": reader("false")}


def _by_spark(session: SparkSession, paths: Sequence[Path], conditions: Sequence[str]) -> Iterator[pa.Table]:
    """One job with a scan for each condition."""
    frame = session.read.parquet(*map(str, paths))
    frames = [
        frame.where(one.replace("AS TIMESTAMP)", "AS TIMESTAMP_NTZ)")).selectExpr(f"{number} AS scan", "*")
        for number, one in enumerate(conditions)
    ]
    rows = reduce(lambda left, right: left.unionAll(right), frames).toArrow()
    for number in range(len(frames)):
        yield rows.filter(pc.equal(rows["scan"], number)).drop_columns("scan")


def _by_pyarrow(paths: Sequence[Path], condition: str) -> pa.Table:
    """All rows of every file, with checksums: DuckDB applies the condition."""
    tables = [pq.ParquetFile(path, page_checksum_verification=True).read() for path in paths]
    return _filtered(pa.concat_tables(tables), condition)


def _by_arrow_rs(paths: Sequence[Path], condition: str) -> pa.Table:
    from arro3.io import read_parquet

    return _filtered(pa.concat_tables(pa.table(read_parquet(path).read_all()) for path in paths), condition)


def _filtered(rows: pa.Table, condition: str) -> pa.Table:
    import duckdb

    return duckdb.sql(f"SELECT * FROM rows WHERE {condition}").to_arrow_table()


def _by_duckdb(paths: Sequence[Path], condition: str) -> pa.Table:
    import duckdb

    return duckdb.sql(
        f"SELECT * FROM read_parquet({list(map(str, paths))}) WHERE {condition}"
    ).to_arrow_table()


def _by_polars(paths: Sequence[Path], condition: str) -> pa.Table:
    import polars

    return polars.scan_parquet(list(paths)).filter(polars.sql_expr(condition)).collect().to_arrow()


def _by_datafusion(paths: Sequence[Path], condition: str) -> pa.Table:
    import datafusion

    settings = datafusion.SessionConfig().set("datafusion.sql_parser.parse_float_as_decimal", "true")
    context = datafusion.SessionContext(settings)
    for option in ("pushdown_filters", "reorder_filters"):
        context.sql(f"SET datafusion.execution.parquet.{option} = true")
    tables = []
    for number, path in enumerate(paths):
        context.register_parquet(f"t{number}", str(path))
        tables.append(context.sql(f"SELECT * FROM t{number} WHERE {condition}").to_arrow_table())
    return pa.concat_tables(tables)


def rows_of_readers(
    readers: Mapping[str, ReadFiles], paths: Sequence[Path], conditions: Sequence[str]
) -> dict[tuple[str, str], Counter[str] | None]:
    """The rows by reader and condition; None where the reader does not read them."""
    return {
        (name, condition): None if rows is None else Counter(map(repr, rows.to_pylist()))
        for name, read in readers.items()
        for condition, rows in zip(conditions, read(paths, conditions), strict=True)
    }


def conditions_of(rows: pa.Table) -> Iterator[str]:
    """For some rows the condition that their first column has its value; for each other column one that some rows
    meet and some may not; then one that all meet.
    """
    first = rows.column_names[0]
    for part in range(1, 2 * _ROWS, 2):
        yield f"{first} = {_literal(rows[first][part * len(rows) // (2 * _ROWS)].as_py())}"
    for number, name in enumerate(rows.column_names[1:]):
        values = rows[name].drop_null()
        literal = _literal(values[len(values) // 2].as_py()) if len(values) else None
        if literal is None:
            yield f"{name} IS NULL" if number % 2 else f"{name} IS NOT NULL"
        else:
            yield f"{name} {('=', '<', '>=')[number % 3]} {literal}"
    yield "1 = 1"


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return f"CAST({value!r} AS DOUBLE)" if value == value else None
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, dt.datetime):
        return None if value.tzinfo else f"CAST('{value.isoformat(' ')}' AS TIMESTAMP)"
    if isinstance(value, dt.date):
        return f"CAST('{value}' AS DATE)"
    return None
