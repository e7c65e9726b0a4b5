"""Order of rows, number of buckets and statistics as Airflow tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.operators.analyze import AnalyzeOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.rescale import RescaleOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

APPENDED, BUCKETS = "g1.a_append_part", "g1.a_pk_dedup_b3_part"


def test_rows_are_put_in_order(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden(APPENDED).copy_to(lake)
    schema = load_catalog(lake).load_table(APPENDED).schema
    column = next(field for field in schema.fields if field.name not in schema.partition_keys)
    operator = CompactTableOperator(
        task_id="sort", table=APPENDED, engine="local", order_strategy="order", order_by=column.name
    )
    assert f"in the order of order({column.name})" in operator.execute(context())["proof"]
    again = operator.execute(context())
    assert again["nothing_to_do"], "the same task run does it once"


def test_buckets_and_statistics(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden(BUCKETS).copy_to(lake)
    first = RescaleOperator(task_id="rescale", table=BUCKETS, bucket_num="{{ 4 }}")
    first.render_template_fields({})
    assert first.execute(context())["snapshot"] is not None
    assert first.execute(context())["nothing_to_do"]
    for kind in (RescaleOperator, AnalyzeOperator):
        wrong = kind(task_id="wrong", table=BUCKETS, engine="{{ params.engine }}")
        wrong.render_template_fields({"params": {"engine": "flink"}})
        with pytest.raises(AirflowFailException, match="use spark or local"):
            wrong.execute(context())
    analyze = AnalyzeOperator(task_id="analyze", table=BUCKETS, columns="all", engine="local")
    found = analyze.execute(context())
    rows = load_catalog(lake).load_table(f"{BUCKETS}$statistics").scan().to_arrow().to_pylist()
    assert [row["snapshot_id"] + 1 for row in rows] == [found["snapshot"]]
