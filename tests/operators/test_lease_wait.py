"""A task waits for a table that another chore holds: it defers, tries again, and gives up in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.clock import SystemClock
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore_airflow.airflow_names import AirflowException, AirflowFailException, TaskDeferred
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.expire import ExpireSnapshotsOperator
from lakecore_airflow.operators.rewrite_file_index import RewriteFileIndexOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
MINUTES_10_MS = 600_000


@pytest.fixture
def table(lake: Path, golden: Callable[[str], GoldenTable]) -> Path:
    golden(TABLE).copy_to(lake)
    return lake


@contextmanager
def held(lake: Path) -> Iterator[None]:
    catalog = load_catalog(str(lake))
    with leased(catalog.file_io, catalog.warehouse, TABLE, "somebody", SystemClock(), LeaseTimes(60_000)):
        yield


def tasks(**given: Any) -> list[Any]:
    return [
        CompactTableOperator(task_id="compact", table=TABLE, engine="local", **given),
        ExpireSnapshotsOperator(task_id="expire", table=TABLE, **given),
        RewriteFileIndexOperator(
            task_id="index",
            table=TABLE,
            engine="local",
            options={"file-index.bloom-filter.columns": "k"},
            **given,
        ),
    ]


def deferred(task: Any, run: Callable[[], Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as found:
        run()
    return found.value


def test_a_task_without_a_time_to_wait_fails_for_now(table: Path) -> None:
    with held(table):
        for task in tasks():
            with pytest.raises(AirflowException, match=r"BusyError.*somebody") as raised:
                task.execute(context())
            assert raised.value.__suppress_context__, "the log needs no traceback of the lease"
            assert "delete" not in str(raised.value), "nobody needs to delete the lease of a task at work"


@pytest.mark.parametrize("number", [0, 1, 2], ids=["compact", "expire", "index"])
def test_a_task_waits_in_the_triggerer_and_does_its_work_then(table: Path, number: int) -> None:
    task = tasks(wait="10 min")[number]
    with held(table):
        first = deferred(task, lambda: task.execute(context()))
        assert first.method_name == "execute_after_wait"
        assert first.timeout is not None
        assert 600 < first.timeout.total_seconds() < 1000
        first.trigger.poke_interval = 0.01
        assert first.trigger._look() is None, "it is held still"
        until = first.trigger.request["until_ms"]
        again = deferred(
            task,
            lambda: task.execute_after_wait(
                context(), {"status": "found", "found": {"free": True, "until_ms": until}}
            ),
        )
        assert again.trigger.request["until_ms"] == until, "somebody was faster: the time goes on"
    event = asyncio.run(anext(first.trigger.run()))
    assert event.payload == {"status": "found", "found": {"free": True, "until_ms": until}}
    report = task.execute_after_wait(context(), event.payload)
    assert report["table"] == TABLE
    assert not report.get("error")


def test_a_wait_ends(table: Path) -> None:
    task = tasks(wait="1 ms")[0]
    with held(table):
        over = {"status": "found", "found": {"free": False, "until_ms": 1}}
        with pytest.raises(AirflowException, match=r"BusyError.*somebody"):
            task.execute_after_wait(context(), over)
        trigger = deferred(
            tasks(wait="10 min")[0], lambda: tasks(wait="10 min")[0].execute(context())
        ).trigger
        trigger.request["until_ms"] = SystemClock().now_ms() - 1
        assert trigger._look() == {"free": False, "until_ms": trigger.request["until_ms"]}


def test_a_failed_wait_is_the_failure_of_the_task(table: Path) -> None:
    task = tasks(wait="10 min")[0]
    with pytest.raises(AirflowException, match="storage is gone"):
        task.execute_after_wait(
            context(), {"status": "error", "error": "storage is gone", "permanent": False}
        )
    with pytest.raises(AirflowFailException, match="no such lake"):
        task.execute_after_wait(context(), {"status": "error", "error": "no such lake", "permanent": True})


def test_a_wait_that_is_no_time_is_refused_before_work(table: Path) -> None:
    with held(table), pytest.raises(AirflowFailException, match="wait"):
        tasks(wait="soon")[0].execute(context())
