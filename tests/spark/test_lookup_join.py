"""DataFrames joined with tables in Spark's workers: Spark's own join of the same rows is the judge."""

from __future__ import annotations

import datetime
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakecore
from lakecore import spark as lakecore_spark
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.spark import BucketShuffle
from lakecore.spark.bucket_shuffle import TaskBuckets

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


@pytest.mark.parametrize("cache", ["auto", "full"])
def test_rows_are_shuffled_to_the_task_of_their_bucket(
    session: SparkSession, table: lakecore.Table, cache: str
) -> None:
    """Each task finds rows of its own buckets only, so that a row in the wrong task would match nothing."""
    on, options = {"article": "k", "p": "p"}, {"lookup.cache": cache}
    plain = lakecore_spark.lookup_join(orders(session), table, on, ["name"], options=options)
    shuffle = BucketShuffle(orders(session), tasks=2)
    shuffled = lakecore_spark.lookup_join(shuffle, table, on, ["name"], options=options)
    assert shuffled.columns == plain.columns
    assert rows_of(shuffled) == rows_of(plain)
    assert shuffled.rdd.getNumPartitions() == 2


def test_which_tasks_keep_their_buckets_and_which_read_what_they_need(tmp_path: Path) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True)
    for name, more, on, kept in (
        ("by_key", {}, ["k"], False),
        ("full", {"lookup.cache": "full"}, ["k"], True),
        ("ordered", {"sequence.field": "v"}, ["k"], True),
        ("other_column", {}, ["k", "v"], True),
    ):
        schema = {"columns": ["k INT", "v INT"], "primaryKeys": ["k"], "options": {"bucket": "5", **more}}
        shares = TaskBuckets.of(catalog.create_table(f"d.{name}", schema), {one: one for one in on}, ["v"], 2)
        assert (shares.is_kept, shares.buckets, shares.tasks) == (kept, 5, 2), name


@pytest.mark.parametrize("function", ["default", "mod"])
def test_rows_with_nulls_stay_in_a_shuffled_join(
    session: SparkSession, tmp_path: Path, function: str
) -> None:
    catalog = lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})
    options = {"bucket": "3", "bucket-function.type": function, "lookup.cache": "full"}
    schema = {"columns": ["k BIGINT", "v STRING"], "primaryKeys": ["k"], "options": options}
    table = catalog.create_table("d.t", schema)
    table.write(arrow(table, [{"k": k, "v": f"v{k}"} for k in range(-5, 5)]))
    frame = session.createDataFrame([(k,) for k in [None, -3, None, 2, 7]], "k INT")
    joined = lakecore_spark.lookup_join(BucketShuffle(frame, 5), table, "k")
    found = sorted(str((row["k"], row["v"])) for row in joined.collect())
    assert found == sorted(map(str, [(None, None), (-3, "v-3"), (None, None), (2, "v2"), (7, None)]))


def test_joins_that_cannot_be_shuffled_are_refused(session: SparkSession, table: lakecore.Table) -> None:
    other = lakecore.load_catalog(Path(table.path).parents[1]).create_table(
        "d.dynamic", {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "-1"}}
    )
    with pytest.raises(UnsupportedError, match="not a function of the keys"):
        lakecore_spark.lookup_join(BucketShuffle(orders(session), 2), other, {"article": "k"}, ["v"])
    with pytest.raises(InvalidInputError, match="k decides the bucket"):
        lakecore_spark.lookup_join(BucketShuffle(orders(session), 2), table, {"p": "p"}, ["name"])
    with pytest.raises(InvalidInputError, match="tasks=0"):
        BucketShuffle(orders(session), 0)


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


def test_the_workers_of_an_executor_make_each_copy_once(
    session: SparkSession, table: lakecore.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks at once, each in a worker of its own, need all four data files; each worker says how many copies it made."""
    frame_class = type(session.range(1))
    plain = frame_class.mapInArrow

    def counted(frame: DataFrame, task: Any, schema: Any) -> DataFrame:
        def run(batches: Any) -> Any:
            from lakecore.lookup.copies.process_cache import process_cache
            from lakecore.spark.joined_frame import _of_this_process

            _of_this_process()
            (tmp_path / f"here-{os.getpid()}").touch()
            end = time.monotonic() + 180
            while len(list(tmp_path.glob("here-*"))) < 2 and time.monotonic() < end:
                time.sleep(0.01)
            before = process_cache().copies_written
            yield from task(batches)
            made = process_cache().copies_written - before
            (tmp_path / f"made-{os.getpid()}").write_text(str(made))

        return plain(frame, run, schema)

    monkeypatch.setattr(frame_class, "mapInArrow", counted)
    on = {"article": "k", "p": "p"}
    frame = orders(session).repartition(2)
    joined = lakecore_spark.lookup_join(frame, table, on, ["name"], how="inner").collect()
    assert len(joined) > 10
    made = sorted(int(path.read_text()) for path in tmp_path.glob("made-*"))
    assert (len(made), sum(made)) == (2, 4), made


def test_rows_of_a_stream_are_joined(session: SparkSession, table: lakecore.Table, tmp_path: Path) -> None:
    source = tmp_path / "orders"
    orders(session, 60).write.parquet(str(source))
    stream = session.readStream.schema("id INT, article INT, p INT").parquet(str(source))
    on, shuffle = {"article": "k", "p": "p"}, BucketShuffle(stream, 2)
    joined = lakecore_spark.lookup_join(shuffle, table, on, ["name"], how="inner")
    query = (
        joined.writeStream.format("memory")
        .queryName("joined")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    again = lakecore_spark.lookup_join(orders(session, 60), table, on, ["name"], how="inner")
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
