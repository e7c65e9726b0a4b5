"""Tasks of a user are tested on a lake in memory, without an Airflow that runs."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.errors import NotFoundError
from lakecore_airflow.airflow_names import TaskDeferred
from lakecore_airflow.assets import table_asset
from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.operators import (
    CompactTableOperator,
    CreateTagOperator,
    FsckOperator,
    ListTablesOperator,
    MaintainTableOperator,
)
from lakecore_airflow.sensors import TagSensor
from lakecore_airflow.sensors.table_sensor import logical_day
from lakecore_airflow.testing import lake_connection, memory_lake, task_context

TABLE = "shop.orders"


def fill(catalog: Catalog, commits: int = 6) -> None:
    definition = {
        "columns": ["k INT", "v STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    table = catalog.create_table(TABLE, definition)
    for number in range(commits):
        table.write(pa.table({"k": pa.array([1, number + 2], pa.int32()), "v": [str(number), "x"]}))


def test_a_task_compacts_a_table_in_memory_and_a_second_try_finds_its_work_done() -> None:
    with memory_lake() as catalog:
        fill(catalog)
        before = catalog.load_table(TABLE).scan().to_arrow().to_pylist()
        task = CompactTableOperator(task_id="compact", table=TABLE, engine="local", strategy="full")
        report = task.execute(task_context("night"))
        assert report["picks_done"] == 1
        assert task.execute(task_context("night"))["snapshot"] == report["snapshot"]
        after = catalog.load_table(TABLE).scan().to_arrow().to_pylist()
    assert sorted(after, key=str) == sorted(before, key=str)
    assert len(after) == 7


def test_each_lake_is_empty_at_first_and_forgotten_at_the_end() -> None:
    with memory_lake() as first:
        fill(first, 1)
        assert ListTablesOperator(task_id="tables").execute(task_context()) == [TABLE]
    with memory_lake() as second:
        assert second.list_databases() == []
        with pytest.raises(NotFoundError):
            first.load_table(TABLE)


def test_two_lakes_have_connections_of_their_own() -> None:
    with memory_lake() as one, memory_lake("archive") as other:
        fill(one, 1)
        assert LakeHook("archive").catalog().list_databases() == other.list_databases() == []
        assert LakeHook().catalog().list_tables("shop") == ["orders"]


def test_a_connection_that_was_there_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", "before")
    monkeypatch.delenv("AIRFLOW_CONN_ARCHIVE", raising=False)
    with suppress(RuntimeError), lake_connection(str(tmp_path), conn_id="archive"), memory_lake():
        assert json.loads(os.environ["AIRFLOW_CONN_ARCHIVE"])["host"] == str(tmp_path)
        assert os.environ["AIRFLOW_CONN_LAKE_DEFAULT"] != "before"
        raise RuntimeError
    assert os.environ["AIRFLOW_CONN_LAKE_DEFAULT"] == "before"
    assert "AIRFLOW_CONN_ARCHIVE" not in os.environ


def test_fields_of_a_connection_are_given(tmp_path: Path) -> None:
    with lake_connection(str(tmp_path), extra={"table_url": "https://c/{database}/{table}"}):
        assert LakeHook().table_url(TABLE) == "https://c/shop/orders"


def test_the_context_has_the_logical_date_the_xcoms_and_the_events() -> None:
    with memory_lake() as catalog:
        fill(catalog, 1)
        day = datetime(2026, 11, 20, tzinfo=UTC)
        context = task_context(logical_date=day)
        outlet = table_asset(TABLE)
        CreateTagOperator(task_id="tag", table=TABLE, tag="eod", outlets=[outlet]).execute(context)
        assert context["outlet_events"][outlet].extra["tags"] == ["eod"]
        checked = task_context()
        FsckOperator(task_id="check", table=TABLE, plan=True).execute(checked)
        assert set(checked["ti"].xcoms) == {"plan"}
        assert logical_day(context) == day
        assert logical_day(task_context(run_after=day)) == datetime(2026, 11, 19, tzinfo=UTC)


def test_a_sensor_finds_or_defers() -> None:
    with memory_lake() as catalog:
        fill(catalog, 1)
        sensor = TagSensor(task_id="wait", table=TABLE, tag="eod", deferrable=True)
        with pytest.raises(TaskDeferred):
            sensor.execute(task_context())
        CreateTagOperator(task_id="tag", table=TABLE, tag="eod").execute(task_context())
        sensor.execute(task_context())


def test_a_policy_is_tried_on_a_lake_in_memory() -> None:
    with memory_lake() as catalog:
        fill(catalog)
        chores = {"expire-snapshots": {"retain-max": 2, "retain-min": 1}}
        MaintainTableOperator(task_id="maintain", table=TABLE, chores=chores).execute(task_context())
        assert len(list(catalog.load_table(TABLE).snapshots())) == 2


def test_the_example_of_the_documentation_passes() -> None:
    text = (Path(__file__).parents[2] / "docs/airflow.md").read_text()
    (example,) = re.findall(r"```python\n((?:(?!```).)*def test_\w+.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    test()
