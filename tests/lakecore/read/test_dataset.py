"""DuckDB and Polars on tables: the same rows as the scan has, with the columns and files that a query needs."""

from __future__ import annotations

import datetime
import gc
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakecore
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import UnsupportedError
from lakecore.predicate.arrow_filter import condition_of
from lakecore.predicate.evaluate import mask
from lakecore.read.source.dataset import ScanDataset
from lakecore.read.source.snapshot_rows import SnapshotRows
from lakecore.types.arrow import arrow_schema
from tests.support.lake import memory_catalog

COLUMNS = ["k BIGINT", "s STRING", "d DATE", "n DECIMAL(9, 2)", "f DOUBLE", "b BOOLEAN", "order BIGINT"]


def rows(low: int) -> pa.Table:
    keys = range(low, low + 10)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [None if k % 4 == 0 else f's"{k}\\' for k in keys],
            "d": [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in keys],
            "n": pa.array([Decimal(k) / 4 for k in keys], pa.decimal128(9, 2)),
            "f": [k / 3 for k in keys],
            "b": [k % 2 == 0 for k in keys],
            "order": pa.array(keys, pa.int64()),
        }
    )


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> FilesystemCatalog:
    found = memory_catalog(request.node.name)
    table = found.create_table("d.t", {"columns": COLUMNS, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    table.write(rows(0))
    plain = found.create_table("d.u", {"columns": COLUMNS})
    for low in (0, 10, 20):
        plain.write(rows(low))
    return found


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found
    gc.collect()


def parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What reads of snapshots were asked for: columns, and how many splits were planned."""
    asked: list[tuple[Any, ...]] = []
    plan, read = SnapshotRows.plan, SnapshotRows.read

    def counted_plan(self: SnapshotRows, where: Any) -> Any:
        found = plan(self, where)
        asked.append(("files", sum(len(split.files) for split in found)))
        return found

    def counted_read(self: SnapshotRows, part: Any, columns: Any, where: Any, *, kinds: bool) -> Any:
        asked.append(("columns", tuple(columns)))
        return read(self, part, columns, where, kinds=kinds)

    monkeypatch.setattr(SnapshotRows, "plan", counted_plan)
    monkeypatch.setattr(SnapshotRows, "read", counted_read)
    return asked


def test_duckdb_reads_the_columns_and_files_that_a_query_needs(
    catalog: FilesystemCatalog, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lakecore.duckdb(connection, catalog) == ("d.t", "d.u")
    asked = parts(monkeypatch)
    found = connection.sql("select d from d.u where k >= 22 and k < 24 order by k").fetchall()
    assert found == [(datetime.date(2024, 1, 23),), (datetime.date(2024, 1, 24),)]
    assert asked == [("files", 1), ("columns", ("k", "d"))]
    query = "select count(*), sum(u.n) from d.u u join d.t t on u.k = t.k where t.s is not null and u.f < 2.5"
    assert connection.sql(query).fetchall() == [(6, Decimal("6.00"))]
    catalog.load_table("d.u").write(rows(30))
    assert connection.sql("select count(*) from d.u").fetchall() == [(40,)], "the latest snapshot"


def test_the_rows_of_a_query_are_those_of_the_condition(
    catalog: FilesystemCatalog, connection: duckdb.DuckDBPyConnection
) -> None:
    lakecore.duckdb(connection, catalog, ["d.u"])
    table = catalog.load_table("d.u").scan().to_arrow()
    connection.register("plain", table)
    for condition in (
        "s = 's\"5\\'",
        "s > 's' and not b",
        "d = '2024-01-05' or k in (1, 2)",
        "n > 2.25 and n <= 3",
        "f = 1.0",
        '"order" = 3',
        "s is null",
        "b and (k < 3 or k > 25)",
        "k <> 4 order by k limit 3",
    ):
        texts = (f"select * from {name} where {condition}" for name in ("d.u", "plain"))
        ours, expected = (connection.sql(text).fetchall() for text in texts)
        assert ours == expected


def test_a_scan_is_a_relation_a_frame_and_a_stream(
    catalog: FilesystemCatalog, connection: duckdb.DuckDBPyConnection
) -> None:
    scan = catalog.load_table("d.t").scan(where="k < 4", columns=["k", "s"])
    expected = scan.to_arrow()
    assert scan.to_duckdb(connection).order("k").arrow().read_all().to_pylist() == expected.to_pylist()
    assert scan.to_duckdb().filter("k = 2").fetchall() == [(2, 's"2\\')]
    assert scan.to_polars().filter(pl.col("k") > 1).select("s").collect()["s"].to_list() == ['s"2\\', 's"3\\']
    assert pa.RecordBatchReader.from_stream(scan).read_all() == expected
    limited = catalog.load_table("d.t").scan(limit=3).to_dataset()
    assert limited.to_table(filter=pc.field("k") > 1).num_rows == 1, "the limit comes first"
    assert limited.count_rows() == 3
    assert pickle.loads(pickle.dumps(ScanDataset(catalog.load_table("d.t").scan))).count_rows() == 10


def test_what_a_dataset_of_files_has_is_refused(catalog: FilesystemCatalog) -> None:
    dataset = catalog.load_table("d.t").scan().to_dataset()
    for call in (
        dataset.get_fragments,
        lambda: dataset.filter(pc.field("k") > 1),
        lambda: dataset.partition_expression,
        lambda: dataset.scanner(columns={"x": pc.field("k")}),
    ):
        with pytest.raises(UnsupportedError):
            call()
    assert repr(dataset) == "ScanDataset(k, s, d, n, f, b, order)"


def test_hostile_names(connection: duckdb.DuckDBPyConnection) -> None:
    catalog = memory_catalog("hostile")
    name = 'd"; drop schema main; --.t"x\'; select 1'
    catalog.create_table(name, {"columns": [{"name": 'a"b', "type": "INT"}]})
    assert lakecore.duckdb(connection, catalog) == (name,)
    database, _, table = name.partition(".")
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (database, table))
    assert connection.sql(f"select * from {quoted}").fetchall() == []


TYPE = memory_catalog("types").create_table("d.t", {"columns": COLUMNS}).schema.row_type
FIELDS = st.sampled_from(["k", "s", "n", "f", "b", "order", "nosuch"])
VALUES = st.one_of(
    st.integers(-3, 12), st.text(alphabet='sa" )(\\and5', max_size=6), st.booleans(), st.floats(-3, 3)
)


def leaf(name: str, op: str, value: Any) -> pc.Expression:
    field = pc.field(name)
    return {
        "==": field == value,
        "<": field < value,
        ">=": field >= value,
        "valid": field.is_valid(),
        "in": field.isin([value]),
        "not": ~(field == value),
    }[op]


LEAVES = st.builds(leaf, FIELDS, st.sampled_from(["==", "<", ">=", "valid", "in", "not"]), VALUES)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner), st.builds(lambda a, b: a | b, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_a_condition_is_true_wherever_the_filter_is(expression: pc.Expression) -> None:
    condition = condition_of(str(expression), TYPE)
    if condition is None:
        return
    batch = rows(0).cast(arrow_schema(TYPE)).to_batches()[0]
    try:
        chosen = pa.Table.from_batches([batch]).filter(expression)["k"].to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return  # a comparison of other types
    hits = batch.filter(mask(condition, batch))["k"].to_pylist()
    assert set(chosen) <= set(hits)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "(k",
        "(k >",
        "(k > 5",
        "(k > 5))",
        "k > 5",
        "((k > 5) xor (k > 6))",
        '(s == "a\\"b")',
        "(" * 500,
    ],
)
def test_text_that_is_no_filter_says_nothing(text: str) -> None:
    assert condition_of(text, TYPE) is None


def test_conditions_are_found() -> None:
    found = condition_of('((k > 5) and ((s == "x) and (y") or is_valid(b)))', TYPE)
    assert "x) and (y" in str(found)
    assert condition_of("((f > 1.5) and (k == 2))", TYPE) == condition_of("(k == 2)", TYPE)
