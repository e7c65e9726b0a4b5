"""DataFrames joined with tables in Spark's workers: Spark's own join of the same rows is the judge."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.errors import InvalidInputError

pytestmark = pytest.mark.slow

AT_ONCE = {"lookup.continuous.discovery-interval": "1 ms"}
KEYED = {
    "columns": ["k INT", "p INT", "name STRING", "price DECIMAL(10, 2)", "at TIMESTAMP(6)"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "2"},
}


def products(first: int, count: int = 40) -> list[dict[str, Any]]:
    at = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
    return [
        {"k": k, "p": k % 2, "name": f"product {k}/{first}", "price": Decimal(k) / 4, "at": at}
        for k in range(first, first + count)
    ]


@pytest.fixture
def table(tmp_path: Path) -> lakecore.Table:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    made = catalog.create_table("d.products", KEYED)
    made.write(arrow(made, products(0)))
    return made


def arrow(table: lakecore.Table, rows: list[dict[str, Any]]) -> pa.Table:
    from lakecore.types.arrow import arrow_schema

    return pa.Table.from_pylist(rows, schema=arrow_schema(table.schema.row_type))


def orders(session: SparkSession, count: int = 200) -> DataFrame:
    rows = [(n, None if n % 17 == 0 else n % 50, n % 2 if n % 50 % 2 == n % 2 else 0) for n in range(count)]
    return session.createDataFrame(rows, "id INT, article INT, p INT").repartition(3)


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in frame.collect())


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("on", [{"article": "k", "p": "p"}, {"article": "k"}], ids=["key", "part of the key"])
def test_a_lookup_join_is_the_join_of_spark(
    session: SparkSession, table: lakecore.Table, on: dict[str, str], how: str
) -> None:
    columns = ["name", "price", "at"]
    joined = lakecore_spark.lookup_join(orders(session), table, on, columns, how=how)
    right = table.scan().to_spark(session).select(*on.values(), *columns)
    left = orders(session)
    condition = [left[mine] == right[theirs] for mine, theirs in on.items()]
    expected = left.join(right, condition, how)
    for name in on.values():
        expected = expected.drop(right[name])
    assert joined.columns == expected.columns
    assert rows_of(joined) == rows_of(expected)
    assert joined.count() > 100


def test_a_worker_follows_the_table_and_keeps_its_cache(session: SparkSession, table: lakecore.Table) -> None:
    def join() -> list[str]:
        found = lakecore_spark.lookup_join(
            orders(session), table, {"article": "k", "p": "p"}, ["name"], how="inner", options=AT_ONCE
        )
        return sorted({row["name"] for row in found.collect()})

    assert all(name.endswith("/0") for name in join())
    table.write(arrow(table, products(20)))
    after = join()
    assert {name.split("/")[1] for name in after} == {"0", "20"}
    assert not any(name.endswith("/0") for name in after if int(name.split()[1].split("/")[0]) >= 20)


def test_rows_of_a_stream_are_joined(session: SparkSession, table: lakecore.Table, tmp_path: Path) -> None:
    source = tmp_path / "orders"
    orders(session, 60).write.parquet(str(source))
    stream = session.readStream.schema("id INT, article INT, p INT").parquet(str(source))
    joined = lakecore_spark.lookup_join(stream, table, {"article": "k", "p": "p"}, ["name"], how="inner")
    query = (
        joined.writeStream.format("memory")
        .queryName("joined")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    again = lakecore_spark.lookup_join(
        orders(session, 60), table, {"article": "k", "p": "p"}, ["name"], how="inner"
    )
    assert rows_of(session.table("joined")) == rows_of(again)
    assert session.table("joined").count() > 10


BAD: dict[str, tuple[Any, Any, str, str]] = {
    "no such column in the frame": ({"item": "k"}, ["name"], "left", "'item'.*is not in the DataFrame"),
    "no such column in the table": ({"article": "sku"}, ["name"], "left", "'sku' is not in table"),
    "a column on both sides": ({"article": "k"}, ["p"], "left", "'p' is in the DataFrame and in table"),
    "another join": ({"article": "k"}, ["name"], "outer", "left or inner"),
    "no column": ({}, ["name"], "left", "at least one column"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_joined_is_refused_before_a_task(
    session: SparkSession, table: lakecore.Table, case: str
) -> None:
    on, columns, how, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        lakecore_spark.lookup_join(orders(session), table, on, columns, how=how)


def test_the_plan_shows_no_secret(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    table = catalog.create_table(
        "d.t", {"columns": ["k INT", "v STRING"], "options": {"bucket": "-1", "my.password": "hunter-2"}}
    )
    joined = lakecore_spark.lookup_join(orders(session), table, {"article": "k"}, ["v"])
    joined.explain(True)
    assert "hunter-2" not in capsys.readouterr().out
