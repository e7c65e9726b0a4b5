"""The sensor: what satisfies it, what it remembers, how it defers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk import DAG

from lakecore_airflow.airflow_names import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from lakecore_airflow.sensors.snapshots import NewSnapshotSensor
from lakecore_airflow.triggers import WaitTrigger
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"  # eight snapshots, all of them APPEND


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> GoldenTable:
    golden(TABLE).copy_to(lake)
    return golden(TABLE)


def _range(first: int, last: int, count: int, table: str = TABLE) -> dict[str, object]:
    return {"table": table, "first": first, "last": last, "count": count}


def _sensor(**arguments: object) -> NewSnapshotSensor:
    with DAG("d", schedule=None):
        return NewSnapshotSensor(**({"task_id": "wait", "table": TABLE, "deferrable": True} | arguments))


def test_the_first_run_takes_all_there_is_and_the_next_waits_for_more(
    table: GoldenTable, capsys: pytest.CaptureFixture[str]
) -> None:
    sensor = _sensor()
    assert sensor.execute(context()) == _range(1, 8, 8)
    assert sensor.execute(context()) == _range(1, 8, 8), "a retry of the run gets the same"
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context(run_id="run2"))
    assert deferred.value.trigger.request["after"] == 8
    log = "".join(capsys.readouterr())
    assert f"nothing in {TABLE} yet: the triggerer checks again every" in log
    assert "'after': 8" in log


def test_a_given_snapshot_wins(table: GoldenTable) -> None:
    sensor = _sensor(after_snapshot="{{ params.n }}")
    sensor.render_template_fields({"params": {"n": 6}})
    assert sensor.execute(context()) == _range(7, 8, 2)
    with pytest.raises(AirflowFailException, match="soon"):
        _sensor(after_snapshot="soon").execute(context())


def test_our_own_compactions_are_not_new_data(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden("g1.a_pk_dedup_b1").copy_to(lake)
    facts = golden("g1.a_pk_dedup_b1").facts["snapshots"]
    appends = [snapshot["id"] for snapshot in facts if snapshot["kind"] == "APPEND"]
    assert len(appends) < len(facts)
    found = _sensor(table="g1.a_pk_dedup_b1").execute(context())
    assert found == _range(appends[0], appends[-1], len(appends), "g1.a_pk_dedup_b1")


def test_a_backfill_takes_the_snapshots_of_its_interval_at_once(table: GoldenTable) -> None:
    times = (
        [snapshot["timeMillis"] for snapshot in table.facts["snapshots"]]
        if "timeMillis" in table.facts["snapshots"][0]
        else _times(table)
    )
    interval = {
        "run_type": "backfill",
        "data_interval_start": datetime.fromtimestamp(times[2] / 1000, UTC),
        "data_interval_end": datetime.fromtimestamp(times[-1] / 1000, UTC),
    }
    expected = [i + 1 for i, time in enumerate(times) if times[2] <= time < times[-1]]
    found = _sensor().execute(context(**interval))
    assert found == _range(expected[0], expected[-1], len(expected))
    assert _sensor().execute(context())["first"] == 1, "a backfill does not move the position"
    past = interval | {
        "data_interval_start": datetime(2020, 1, 1, tzinfo=UTC),
        "data_interval_end": datetime(2020, 1, 2, tzinfo=UTC),
    }
    with pytest.raises(AirflowSkipException, match="data interval"):
        _sensor().execute(context(**past))


def _times(table: GoldenTable) -> list[int]:
    folder = table.path / "snapshot"
    return [
        json.loads((folder / f"snapshot-{snapshot['id']}").read_text())["timeMillis"]
        for snapshot in table.facts["snapshots"]
    ]


def test_what_is_asked_is_obeyed_at_the_first_look_and_sent_along(table: GoldenTable) -> None:
    sensor = _sensor(after_snapshot=3, count="{{ params.n }}", kinds="", watermark="{{ params.none }}")
    sensor.render_template_fields({"params": {"n": 5, "none": None}})
    assert sensor.execute(context()) == _range(4, 8, 5)
    with pytest.raises(TaskDeferred) as deferred:
        _sensor(after_snapshot=3, count=6, rows=10).execute(context())
    asked = deferred.value.trigger.request
    assert (asked["after"], asked["count"], asked["rows"]) == (3, 6, 10)
    with pytest.raises(AirflowFailException, match="kinds"):
        _sensor(kinds="merge").execute(context())


def test_the_trigger_survives_serialisation_and_fires_once(table: GoldenTable) -> None:
    trigger = WaitTrigger(
        wait="new-snapshots",
        table=TABLE,
        request={"after": 5, "count": 3},
        lake_conn_id="lake_default",
        poke_interval=0.01,
    )
    path, arguments = trigger.serialize()
    assert path == f"{WaitTrigger.__module__}.{WaitTrigger.__qualname__}"
    copy = WaitTrigger(**json.loads(json.dumps(arguments)))
    assert copy.serialize() == trigger.serialize()
    events = asyncio.run(_events(copy))
    assert [event.payload for event in events] == [
        {"status": "found", "found": {"first": 6, "last": 8, "count": 3}}
    ]
    sensor = _sensor()
    assert sensor.execute_complete(context(), events[0].payload) == _range(6, 8, 3)


def test_a_trigger_that_fails_fails_its_sensor(lake: Path) -> None:
    trigger = WaitTrigger(
        wait="tag", table="g1.gone", request={"tag": "x"}, lake_conn_id="lake_default", poke_interval=0.01
    )
    [event] = asyncio.run(_events(trigger))
    assert event.payload["status"] == "error"
    with pytest.raises(AirflowFailException, match=r"g1\.gone"):
        _sensor(table="g1.gone").execute_complete(context(), event.payload)
    with pytest.raises(AirflowException, match="storm"):
        _sensor().execute_complete(context(), {"status": "error", "error": "storm", "permanent": False})


@pytest.mark.parametrize("rule", ["soft_fail", "never_fail"])
def test_the_first_look_obeys_the_rules_of_sensors(lake: Path, rule: str) -> None:
    with pytest.raises(AirflowFailException, match=r"g1\.gone"):
        _sensor(table="g1.gone").execute(context())
    with pytest.raises(AirflowSkipException, match=r"g1\.gone"):
        _sensor(table="g1.gone", **{rule: True}).execute(context())


async def _events(trigger: WaitTrigger) -> list[object]:
    return [event async for event in trigger.run()]
