"""A task runs the query service of a table; a sensor waits for it."""

from __future__ import annotations

import copy
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

import lakecore
from lakecore.errors import UnavailableError
from lakecore.service.addresses import Address
from lakecore.service.connection import ClientOptions
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.table import Table
from lakecore_airflow.airflow_names import AirflowFailException, AirflowSkipException
from lakecore_airflow.operators.query_service import QueryServiceOperator, QueryServiceSensor
from tests.operators.conftest import context


@pytest.fixture
def table(lake: Path) -> Table:
    definition = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    table = lakecore.load_catalog(str(lake)).create_table("d.t", definition)
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["one"]}))
    return table


def operator(**more: Any) -> QueryServiceOperator:
    return QueryServiceOperator(**({"task_id": "serve", "table": "d.t", "interval": 0.02} | more))


def sensor(**more: Any) -> QueryServiceSensor:
    return QueryServiceSensor(**({"task_id": "wait", "table": "d.t"} | more))


@contextmanager
def running(task: QueryServiceOperator) -> Iterator[Future[Any]]:
    """The task in a thread, once the sensor finds its service; it is stopped as Airflow stops tasks."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(task.execute, context())
        try:
            end = time.monotonic() + 30
            while not sensor().poke(context()).is_done and not future.done() and time.monotonic() < end:
                time.sleep(0.01)
            yield future
        finally:
            task.on_kill()


def test_a_task_serves_a_table_until_it_is_stopped(table: Table) -> None:
    assert not sensor().poke(context()).is_done
    task = operator()
    with running(task) as future:
        found = sensor().poke(context())
        addresses = service_manager(table).service()
        assert addresses is not None
        assert found.xcom_value == {"table": "d.t", "addresses": [str(addresses[0])]}
        with RemoteTableQuery(table) as remote:
            assert remote.lookup((), 0, (1,)) == {"k": 1, "v": "one"}
            table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["two"]}))
            end = time.monotonic() + 30
            while remote.lookup((), 0, (1,)) != {"k": 1, "v": "two"} and time.monotonic() < end:
                time.sleep(0.01)
        with pytest.raises(AirflowSkipException, match="runs already"):
            operator().execute(context())
    said = future.result(30)
    assert (said["address"], said["snapshot"]) == (str(addresses[0]), 2)
    assert said["requests"] >= 2
    assert service_manager(table).service() is None
    assert not sensor().poke(context()).is_done


def test_all_addresses_of_a_worker_have_its_name(table: Table) -> None:
    with running(operator(host="0.0.0.0")):
        (address,) = service_manager(table).service() or ()
    assert address.host == socket.getfqdn()


def test_a_task_ends_after_its_time(table: Table) -> None:
    started = time.monotonic()
    assert operator(run_for=timedelta(seconds=0.2)).execute(context())["requests"] == 0
    assert time.monotonic() - started >= 0.2
    assert service_manager(table).service() is None


def test_a_service_that_crashed_is_none(table: Table) -> None:
    service_manager(table).reset_service([Address("127.0.0.1", 1)])
    assert not sensor().poke(context()).is_done
    with running(operator()):
        assert sensor().poke(context()).is_done


def test_the_token_is_that_of_the_connection(
    table: Table, lake: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extra = {"query_service_token": "a secret token"}
    fields = {"conn_type": "lakecore", "host": str(lake), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(fields))
    quick = {"tries": 2, "first_wait": 0.01}
    with running(operator()):
        with RemoteTableQuery(table, ClientOptions(token="a secret token", **quick)) as remote:  # type: ignore[arg-type]
            assert remote.lookup((), 0, (1,)) == {"k": 1, "v": "one"}
        with RemoteTableQuery(table, ClientOptions(**quick)) as remote, pytest.raises(UnavailableError):  # type: ignore[arg-type]
            remote.lookup((), 0, (1,))
    assert "a secret token" not in caplog.text


def test_what_no_retry_can_repair_fails_at_once(lake: Path) -> None:
    lakecore.load_catalog(str(lake)).create_table("d.t", {"columns": ["v INT"]})
    with pytest.raises(AirflowFailException, match="primary key"):
        operator().execute(context())
    with pytest.raises(AirflowFailException, match=r"d\.none"):
        sensor(table="d.none").poke(context())


def test_a_task_that_has_not_begun_is_copied_and_stopped() -> None:
    with DAG("d", schedule=None):
        task = operator()
    again = copy.deepcopy(task)
    again.on_kill()
    assert again.table == "d.t"


def test_local_copies_are_below_the_named_directory_and_stay(table: Table, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    with running(operator(cache_directory=f"{copies},")) as future, RemoteTableQuery(table) as remote:
        assert remote.lookup((), 0, (1,)) == {"k": 1, "v": "one"}
    future.result(30)
    assert [path for path in copies.rglob("*") if path.is_file()]


@pytest.mark.parametrize("value", [None, "", " "], ids=repr)
def test_without_a_directory_copies_are_temporary(value: str | None) -> None:
    assert operator(cache_directory=value)._cache_directories() == ()
