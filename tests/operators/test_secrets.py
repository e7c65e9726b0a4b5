"""No secret of a connection or of an option is in rendered fields, XCom, logs, errors or lakecore's ledger."""

from __future__ import annotations

import importlib
import json
import logging
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk._shared.secrets_masker import redact
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

import lakecore_airflow
from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import secrets_of
from lakecore.metadata.schema_change import SetOption
from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.lake.compact_database import CompactDatabaseOperator
from lakecore_airflow.lake.dedicated_compaction import DedicatedCompactionOperator
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.operators.expire import ExpireSnapshotsOperator
from lakecore_airflow.operators.rewrite_file_index import RewriteFileIndexOperator
from lakecore_airflow.policy.maintain import MaintainTableOperator, PlanMaintenanceOperator
from lakecore_airflow.secrets import LakeTask
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"
SECRETS = {
    "s3.access-key": "AK-of-the-connection",
    "s3.secret-key": "SK-of-the-connection",
    "s3.session-token": "ST-of-the-connection",
}
OPTIONS = {
    "s3.secret-key": "hidden-1",
    "fs.s3a.access-key": "hidden-2",
    "fs.azure.sas-key": "hidden-3",
    "user.credential": "hidden-4",
    "jdbc.url": "jdbc:x://me:hidden-5@host/db",
    "catalog.passphrase": "hidden-6",
}
for _module in pkgutil.walk_packages(lakecore_airflow.__path__, "lakecore_airflow."):
    importlib.import_module(_module.name)


def _lake_tasks(kind: type[BaseOperator] = LakeTask) -> Iterator[type[BaseOperator]]:
    for below in kind.__subclasses__():
        yield below
        yield from _lake_tasks(below)


_OF_MANY = (CompactDatabaseOperator, DedicatedCompactionOperator, PlanMaintenanceOperator)
MAPPINGS = sorted(
    {
        (kind, name)
        for kind in _lake_tasks()
        for name in kind.template_fields
        if name in ("options", "spark_conf", "chores", "policy")
    },
    key=lambda found: (found[0].__name__, found[1]),
)


@pytest.fixture
def connection(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The connection has secrets; its warehouse is a directory."""
    _connect(monkeypatch, str(lake))
    return lake


def _connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    fields = {
        "conn_type": "lakecore",
        "host": host,
        "login": SECRETS["s3.access-key"],
        "password": SECRETS["s3.secret-key"],
        "extra": {"s3_session_token": SECRETS["s3.session-token"], **extra},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_DEFAULT", json.dumps(fields))


def _leaks(text: str, *more: str) -> list[str]:
    return [secret for secret in (*SECRETS.values(), *more) if secret in text]


def _hidden(text: str) -> list[str]:
    return _leaks(text, *(f"hidden-{number}" for number in range(1, 7)))


def _files(warehouse: Path) -> str:
    return "".join(
        path.read_bytes().decode("utf-8", "replace")
        for path in (warehouse / ".lakecore").rglob("*")
        if path.is_file()
    )


@pytest.mark.parametrize(("kind", "name"), MAPPINGS, ids=lambda value: getattr(value, "__name__", value))
def test_rendered_fields_show_no_secret(kind: type[BaseOperator], name: str) -> None:
    value: Any = OPTIONS
    if name == "policy":
        value = [{"tables": "*", "chores": {"compact": {"options": value}}}]
    given: dict[str, Any] = {} if kind in _OF_MANY else {"table": "{{ params.table }}"}
    if kind is MaintainTableOperator:
        given["chores"] = {"compact": {}}
    with DAG("d", schedule=None):
        operator = kind(task_id="task", **{**given, name: value})
    operator.render_template_fields({"params": {"table": "d.t"}})
    rendered = json.dumps(_serialize_rendered_fields(operator))
    assert "fs.azure.sas-key" in rendered
    assert _hidden(rendered) == []


def test_every_operator_with_options_is_looked_at() -> None:
    names = {kind.__name__ for kind, _ in MAPPINGS}
    assert {
        "CompactTableOperator",
        "MaintainTableOperator",
        "RewriteFileIndexOperator",
        "RescaleOperator",
    } <= names


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        pytest.param(ExpireSnapshotsOperator, {"retain_max": 2, "retain_min": 2}, id="expire"),
        pytest.param(CompactTableOperator, {"engine": "local", "strategy": "full"}, id="compact"),
        pytest.param(RewriteFileIndexOperator, {"engine": "local"}, id="file-index"),
        pytest.param(
            MaintainTableOperator,
            {"chores": {"expire-snapshots": {"retain-max": 1, "retain-min": 1}}},
            id="maintain",
        ),
    ],
)
def test_reports_logs_and_ledger_hold_no_secret(
    kind: type[BaseOperator],
    arguments: dict[str, Any],
    connection: Path,
    golden: Callable[[str], GoldenTable],
    caplog: pytest.LogCaptureFixture,
) -> None:
    golden(TABLE).copy_to(connection)
    options = {**OPTIONS, "file-index.bloom-filter.columns": "v"}
    # A run takes options that lakecore does not know only if they are options of the table.
    load_catalog(connection).alter_table(TABLE, [SetOption(key, value) for key, value in OPTIONS.items()])
    if "options" in kind.template_fields:
        arguments = {**arguments, "options": options}
    operator = kind(task_id="task", table=TABLE, **arguments)
    run = context()
    with caplog.at_level(logging.DEBUG):
        report = operator.execute(run)
    assert TABLE in json.dumps(report, default=str)
    assert _hidden(json.dumps([report, run["ti"].xcoms], default=str)) == []
    assert _hidden(caplog.text) == []
    assert _hidden(_files(connection)) == []
    assert _hidden(repr(operator)) == []


@pytest.mark.parametrize("kind", [ExpireSnapshotsOperator, CompactTableOperator, MaintainTableOperator])
def test_errors_of_storage_hold_no_secret(
    kind: type[BaseOperator], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody listens at the endpoint; the address has a password besides."""
    _connect(monkeypatch, "s3://bucket/wh", s3_endpoint="http://me:hidden-1@127.0.0.1:9")
    chores = {"chores": {"expire-snapshots": {}}} if kind is MaintainTableOperator else {}
    operator = kind(task_id="task", table="d.t", **chores)
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        operator.execute(context())
    said = "".join(traceback.format_exception(caught.value))
    assert "127.0.0.1" in said or "s3://bucket" in said
    assert _hidden(redact(said)) == []
    assert _hidden(str(caught.value)) == [], "lakecore's own message, whoever logs it"
    assert _hidden(redact(caplog.text)) == []


def test_values_of_wrong_options_are_not_shown(
    connection: Path, golden: Callable[[str], GoldenTable], caplog: pytest.LogCaptureFixture
) -> None:
    golden(TABLE).copy_to(connection)
    operator = CompactTableOperator(
        task_id="task", table=TABLE, engine="local", options={"sequence.field": "x", **OPTIONS}
    )
    with pytest.raises(Exception, match=r"sequence\.field") as caught:
        operator.execute(context())
    assert _hidden("".join(traceback.format_exception(caught.value)) + caplog.text) == []


def test_what_the_hook_reads_is_masked_in_whatever_airflow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    _connect(monkeypatch, "s3://me:hidden-in-host@bucket/wh")
    hook = LakeHook()
    hook.options()
    hook.warehouse()
    text = f"login {SECRETS['s3.access-key']}, {SECRETS['s3.session-token']}, hidden-in-host"
    assert redact(text) == "login ***, ***, ***"


def test_secrets_are_those_that_are_masked() -> None:
    found = set(
        secrets_of({"a": [OPTIONS, "x token='t o' y", 7], "password": None, "secret": {"inner": "no"}})
    )
    assert found == {f"hidden-{number}" for number in range(1, 7)} | {"t o"}
