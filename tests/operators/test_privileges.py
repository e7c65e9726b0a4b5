"""Users, privileges and drops as Airflow tasks. Passwords are those of connections, and nowhere else."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError, PrivilegeError
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.operators import (
    CreatePrivilegedUserOperator,
    DropPrivilegedUserOperator,
    DropTableOperator,
    GrantPrivilegeToUserOperator,
    HoldTableOperator,
    InitFileBasedPrivilegeOperator,
    RestoreTableOperator,
    RevokePrivilegeFromUserOperator,
)
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
ROOT_PASSWORD, READER_PASSWORD = "correct-horse-root", "battery-staple-reader"


def run(operator: Any, **fields: Any) -> tuple[dict[str, Any], Any]:
    """Render and run a task; return its XCom and the task."""
    task = operator(task_id="t", **fields)
    task.render_template_fields({"params": {"user": "reader", "yes": True}})
    return task.execute(context()), task


@pytest.fixture
def connections(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The connection to the lake as root, and those with new passwords."""
    extra = {"user": "root", "password": ROOT_PASSWORD}
    lake_connection = {"conn_type": "lakecore", "host": str(lake), "extra": {"catalog_options": extra}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_ROOT", json.dumps(lake_connection))
    for name, password in (("ROOT", ROOT_PASSWORD), ("READER", READER_PASSWORD), ("EMPTY", "")):
        connection = {"conn_type": "generic", "password": password}
        monkeypatch.setenv(f"AIRFLOW_CONN_NEW_{name}", json.dumps(connection))
    return lake


def test_users_get_privileges_and_lose_them(
    connections: Path, golden: Callable[[str], GoldenTable], caplog: pytest.LogCaptureFixture
) -> None:
    golden(TABLE).copy_to(connections)
    root = {"lake_conn_id": "lake_root"}
    reader = {"user": "{{ params.user }}", **root}
    select = {**reader, "privilege": "select", "table": TABLE}
    results: list[Any] = []

    def done(operator: Any, **fields: Any) -> dict[str, Any]:
        report, task = run(operator, **fields)
        results.append((report, {name: getattr(task, name) for name in task.template_fields}))
        return report

    def reads() -> None:
        options = {"user": "reader", "password": READER_PASSWORD}
        load_catalog(connections, **options).load_table(TABLE).scan().to_arrow()

    with caplog.at_level(logging.DEBUG):
        assert done(InitFileBasedPrivilegeOperator, password_conn_id="new_root", **root) == {"created": True}
        again = {"password_conn_id": "new_root", "if_not_exists": "{{ params.yes }}", **root}
        assert done(InitFileBasedPrivilegeOperator, **again) == {"created": False}
        create = {"password_conn_id": "new_reader", **reader}
        assert done(CreatePrivilegedUserOperator, **create) == {"user": "reader", "created": True}
        with pytest.raises(AirflowFailException, match="user reader exists"):
            run(CreatePrivilegedUserOperator, **create)
        assert not done(CreatePrivilegedUserOperator, **create, if_not_exists=True)["created"]
        with pytest.raises(PrivilegeError):
            reads()
        granted = {"user": "reader", "privilege": "SELECT", "on": TABLE}
        assert done(GrantPrivilegeToUserOperator, **select) == granted
        assert done(GrantPrivilegeToUserOperator, **select) == granted, "a retry changes nothing"
        reads()
        assert done(RevokePrivilegeFromUserOperator, **select)["revoked"] == 1
        with pytest.raises(PrivilegeError):
            reads()
        with pytest.raises(AirflowFailException, match="does not have the privilege SELECT"):
            run(RevokePrivilegeFromUserOperator, **select)
        assert done(RevokePrivilegeFromUserOperator, **select, if_exists=True)["revoked"] == 0
        assert done(DropPrivilegedUserOperator, **reader)["dropped"]
        assert not done(DropPrivilegedUserOperator, **reader, if_exists=True)["dropped"]
    everything = caplog.text + json.dumps(results)
    assert ROOT_PASSWORD not in everything
    assert READER_PASSWORD not in everything


def test_what_cannot_be_done_is_refused(connections: Path) -> None:
    grant = {"task_id": "t", "user": "reader"}
    with pytest.raises(InvalidInputError, match="task t: privilege='SELEKT': use one of SELECT, INSERT"):
        GrantPrivilegeToUserOperator(**grant, privilege="selekt")
    with pytest.raises(InvalidInputError, match="database and table exclude each other"):
        RevokePrivilegeFromUserOperator(**grant, privilege="SELECT", database="d", table="d.t")
    GrantPrivilegeToUserOperator(**grant, privilege="{{ params.word }}")
    with pytest.raises(AirflowFailException, match="connection new_empty has no password"):
        run(InitFileBasedPrivilegeOperator, password_conn_id="new_empty")
    with pytest.raises(AirflowFailException, match="this warehouse has no users and privileges"):
        run(CreatePrivilegedUserOperator, user="reader", password_conn_id="new_reader")


def test_a_table_is_dropped_and_restored(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden(TABLE).copy_to(lake)
    rows = load_catalog(lake).load_table(TABLE).scan().to_arrow()
    report, _ = run(DropTableOperator, table=TABLE)
    assert report["dropped"]
    assert not load_catalog(lake).table_exists(TABLE)
    with pytest.raises(AirflowFailException, match="does not exist"):
        run(DropTableOperator, table=TABLE)
    again, _ = run(DropTableOperator, table=TABLE, if_exists="{{ params.yes }}")
    assert again == {"table": TABLE, "dropped": False, "drop": None}
    run(RestoreTableOperator, table=TABLE, drop=report["drop"])
    assert load_catalog(lake).load_table(TABLE).scan().to_arrow() == rows
    run(HoldTableOperator, table=TABLE, reason="audit")
    with pytest.raises(AirflowFailException, match="on hold"):
        run(DropTableOperator, table=TABLE)
    assert load_catalog(lake).load_table(TABLE).scan().to_arrow() == rows
