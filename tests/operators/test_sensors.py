"""Sensors for a tag and for partitions that are done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from lakecore_airflow.airflow_names import AirflowFailException, TaskDeferred
from lakecore_airflow.operators.partitions import MarkPartitionDoneOperator
from lakecore_airflow.operators.tags import CreateTagOperator
from lakecore_airflow.sensors.partitions import PartitionDoneSensor
from lakecore_airflow.sensors.table_sensor import TableSensor
from lakecore_airflow.sensors.tags import TagSensor
from lakecore_airflow.triggers import WaitTrigger
from tests.operators.conftest import context
from tests.support.golden import GoldenTable, set_option

TABLE = "g1.a_pk_dedup_b3_part"
DAY = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    golden(TABLE).copy_to(lake)
    return lake / "g1.db" / "a_pk_dedup_b3_part"


def _make(kind: type[TableSensor], **arguments: Any) -> TableSensor:
    with DAG("d", schedule=None):
        return kind(**({"task_id": "wait", "table": TABLE, "deferrable": True} | arguments))


def _resumed(sensor: TableSensor, run: dict[str, Any], then: Callable[[], object]) -> Any:
    """Defer, let something happen, wake up in the triggerer and go on."""
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(run)
    then()
    _, arguments = deferred.value.trigger.serialize()
    trigger = WaitTrigger(**json.loads(json.dumps(arguments)) | {"poke_interval": 0.01})

    async def event() -> Any:
        return await anext(aiter(trigger.run()))

    return sensor.execute_complete(run, asyncio.run(event()).payload)


def test_a_tag_is_waited_for(table: Path) -> None:
    def tag() -> None:
        CreateTagOperator(task_id="t", table=TABLE, tag="2024-01-01", snapshot=2).execute(context())

    for run in (context(logical_date=DAY), context(run_after=DAY + timedelta(days=1, hours=2))):
        found = _resumed(_make(TagSensor), run, tag)
        assert (found["tag"], found["snapshot"]) == ("2024-01-01", 2)
        assert found == _make(TagSensor, tag="2024-01-01").execute(context()), "the first look finds it"
        (table / "tag" / "tag-2024-01-01").unlink()
    named = _make(TagSensor, tag="{{ params.none }}", tag_format="day-%Y%m%d")
    named.render_template_fields({"params": {"none": None}})
    with pytest.raises(TaskDeferred) as deferred:
        named.execute(context(logical_date=DAY))
    assert deferred.value.trigger.request == {"tag": "day-20240101"}


def test_partitions_are_waited_for_until_all_are_done(table: Path) -> None:
    def mark(day: str) -> None:
        MarkPartitionDoneOperator(task_id="m", table=TABLE, partitions=f"dt={day}").execute(context())

    run = context(logical_date=DAY)
    found = _resumed(_make(PartitionDoneSensor), run, lambda: mark("2024-01-01"))
    [first] = table.glob("dt=*/_SUCCESS")
    stamp = json.loads(first.read_text())["modificationTime"]
    assert found == {"table": TABLE, "partitions": ["dt=2024-01-01"], "modified_millis": stamp}
    both = _make(PartitionDoneSensor, partitions="dt=2024-01-01;dt=2024-01-02")
    found = _resumed(both, run, lambda: mark("2024-01-02"))
    assert found["partitions"] == ["dt=2024-01-01", "dt=2024-01-02"]
    [second] = set(table.glob("dt=*/_SUCCESS")) - {first}
    second.write_bytes(b"")
    assert both.execute(run)["modified_millis"] == stamp, "other engines leave the mark empty"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"partitions": "day=1"}, "day=1"), ({"table": "g1.gone"}, "gone")],
)
def test_what_can_never_be_done_fails_at_once(table: Path, arguments: dict[str, str], problem: str) -> None:
    with pytest.raises(AirflowFailException, match=problem):
        _make(PartitionDoneSensor, **arguments).execute(context(logical_date=DAY))


def test_marks_that_cannot_be_seen_are_not_waited_for(table: Path) -> None:
    set_option(table, "partition.mark-done-action", "done-partition")
    with pytest.raises(AirflowFailException, match="mark-done-action"):
        _make(PartitionDoneSensor).execute(context(logical_date=DAY))


def test_a_sensor_without_a_triggerer_pokes(table: Path) -> None:
    CreateTagOperator(task_id="t", table=TABLE, tag="x", snapshot=1).execute(context())
    sensor = _make(TagSensor, tag="x", deferrable=False)
    assert sensor.execute(context())["snapshot"] == 1
