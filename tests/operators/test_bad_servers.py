"""A task whose connection names a server of a catalog that does not answer is tried again, and says which connection, where and what to check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.errors import UnavailableError, explain
from lakecore_airflow.hooks import LakeHook, is_permanent
from lakecore_airflow.lake.tables import ListTablesOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.sensors.snapshots import NewSnapshotSensor
from tests.operators.conftest import context
from tests.support.fake_clock import FakeClock
from tests.support.silent_port import silent_port

SECRET = "hush-of-the-night"
JDBC = {"metastore": "jdbc", "jdbc_user": "lake", "jdbc_password": SECRET}
EXTRA = {
    "postgresql": {**JDBC, "catalog_uri": "jdbc:postgresql://127.0.0.1:PORT/names"},
    "mariadb": {**JDBC, "catalog_uri": "jdbc:mysql://127.0.0.1:PORT/names"},
    "hive": {"metastore": "hive", "catalog_uri": "thrift://127.0.0.1:PORT"},
    "rest": {
        "metastore": "rest",
        "catalog_uri": "http://127.0.0.1:PORT",
        "token_provider": "bear",
        "catalog_token": SECRET,
    },
}
TASKS: dict[str, Callable[[], Any]] = {
    "compaction": lambda: CompactTableOperator(task_id="t", table="d.t", lake_conn_id="night"),
    "list": lambda: ListTablesOperator(task_id="t", lake_conn_id="night"),
    "sensor": lambda: NewSnapshotSensor(task_id="t", table="d.t", lake_conn_id="night"),
}


@pytest.fixture
def port() -> Iterator[int]:
    with silent_port() as number:
        yield number


@pytest.mark.parametrize("kind", EXTRA)
def test_a_task_says_which_server_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, port: int
) -> None:
    for module in ("hive.hive_catalog", "rest.rest_catalog"):
        monkeypatch.setattr(f"lakecore.catalog.{module}.SystemClock", FakeClock)
    extra = {key: value.replace("PORT", str(port)) for key, value in EXTRA[kind].items()}
    fields = {"conn_type": "lakecore", "host": str(tmp_path), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_NIGHT", json.dumps(fields))
    for name, make in TASKS.items():
        with pytest.raises(UnavailableError) as caught:
            make().execute(context())
        assert not is_permanent(caught.value), f"{name} is tried again"
        text = explain(caught.value)
        assert "the catalog is 'night'" in text, name
        assert f"127.0.0.1:{port}" in text, name
        assert "check " in text, name
        assert SECRET not in text + caplog.text, name
    works, text = LakeHook("night").test_connection()
    assert not works
    assert f"127.0.0.1:{port}" in text
    assert SECRET not in text
